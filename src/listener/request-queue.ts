// Orders the pipelined requests of one connection: safe requests run concurrently, and an unsafe request runs alone
// (RFC 9112, 9.3.2). A GET that is pipelined behind a DELETE therefore sees its effect.

interface QueuedRequest {
  readonly isSafe: boolean
  readonly serve: () => void
}

/** Methods that change nothing (RFC 9110, 9.2.1). */
const safeMethods: readonly unknown[] = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

export function createRequestQueue() {
  const queue: QueuedRequest[] = []
  let running = 0
  let isExclusive = false

  const canStart = ({ isSafe }: QueuedRequest) => running === 0 || (isSafe && !isExclusive)

  function start({ isSafe, serve }: QueuedRequest): void {
    running++
    isExclusive = !isSafe
    serve()
  }

  return {
    /** @param serve is called once, immediately or when the requests before it have finished */
    enqueue(method: string | undefined, serve: () => void): void {
      const request = { isSafe: safeMethods.includes(method), serve }
      if (queue.length === 0 && canStart(request)) start(request)
      else queue.push(request)
    },

    /** Marks one running request as finished and starts the requests that waited for it. */
    requestFinished(): void {
      running--
      for (let next = queue[0]; next !== undefined && canStart(next); next = queue[0]) {
        queue.shift()
        start(next)
      }
    },
  }
}
