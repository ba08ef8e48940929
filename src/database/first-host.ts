// Connects to the first of several hosts that accepts a connection.
import { hostOf } from '../config/host-urls.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'

/** The Connection Attempt Delay of RFC 8305: the next host is tried while this one has not answered yet. */
const ATTEMPT_DELAY_MS = 250
/** The pause before all hosts that have rejected are tried again. */
const RETRY_DELAY_MS = 1000

/** Returns the only error, or one with the reasons of all hosts and the code of the host that has rejected first. */
function combined(errors: ReadonlyMap<string, unknown>): unknown {
  const [first, ...others] = errors.values()
  if (others.length === 0) return first
  const message = [...errors].map(([url, error]) => `${hostOf(url)}: ${reasonOf(error)}`).join('; ')
  return Object.assign(new Error(message), hasCode(first) ? { code: first.code } : {})
}

/**
 * Connects to the first of the hosts in `urls` that accepts, in their order. The next host is tried as soon as one rejects, and also
 * while one does not answer. The first connection wins. As long as a host does not answer, those that have rejected are tried again:
 * a primary that was cut off from its group does not answer, and the group elects another one meanwhile.
 * @param close is called with a connection that comes too late
 * @throws the error of the only host, or one that names all hosts
 */
export function connectToFirst<C>(
  urls: readonly string[],
  connect: (url: string) => Promise<C>,
  close: (late: C) => void,
): Promise<C> {
  return new Promise((resolve, reject) => {
    const hosts = [...new Set(urls)]
    const errors = new Map<string, unknown>()
    const pending = new Set<string>()
    let next = [...hosts]
    let connected = false
    let timer: NodeJS.Timeout | undefined

    function retry(): void {
      next = hosts.filter(url => !pending.has(url))
      startNext()
    }

    function startNext(): void {
      clearTimeout(timer)
      const url = next.shift()
      timer = url === undefined ? setTimeout(retry, RETRY_DELAY_MS) : setTimeout(startNext, ATTEMPT_DELAY_MS)
      if (url === undefined) return
      pending.add(url)
      connect(url).then(
        connection => {
          if (connected) return close(connection)
          connected = true
          clearTimeout(timer)
          resolve(connection)
        },
        (error: unknown) => {
          pending.delete(url)
          errors.set(url, error)
          if (connected) return
          if (next.length > 0) return startNext()
          if (pending.size > 0) return
          clearTimeout(timer)
          reject(combined(errors))
        },
      )
    }
    startNext()
  })
}
