// The order in which the requests of one connection are served. A client may send the next one before the last is
// answered: reads are then served side by side, but what may change something is served alone (RFC 9112, 9.3.2), so that
// who deletes and then reads finds nothing.

interface Turn {
  readonly isSafe: boolean
  readonly serve: () => void
}

/** Methods that change nothing (RFC 9110, 9.2.1). */
const safeMethods: readonly unknown[] = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

export function createRequestQueue() {
  const waiting: Turn[] = []
  let serving = 0
  let isAlone = false

  const mayBegin = ({ isSafe }: Turn) => serving === 0 || (isSafe && !isAlone)

  function begin({ isSafe, serve }: Turn): void {
    serving++
    isAlone = !isSafe
    serve()
  }

  return {
    /** @param serve is called once, when it is the request's turn: that may be at once */
    take(method: string | undefined, serve: () => void): void {
      const turn = { isSafe: safeMethods.includes(method), serve }
      if (waiting.length === 0 && mayBegin(turn)) begin(turn)
      else waiting.push(turn)
    },

    /** One that was served has its answer. */
    ended(): void {
      serving--
      for (let next = waiting[0]; next !== undefined && mayBegin(next); next = waiting[0]) {
        waiting.shift()
        begin(next)
      }
    },
  }
}
