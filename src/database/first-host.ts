// Connects to the first of several hosts that accepts a connection.
import { hostOf } from '../config/host-urls.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'

/** The Connection Attempt Delay of RFC 8305: the next host is tried while this one has not answered yet. */
const ATTEMPT_DELAY_MS = 250

/** Returns the only error, or one with the reasons of all hosts and the code of the first host. */
function combined(errors: readonly (readonly [url: string, error: unknown])[]): unknown {
  const [[, first] = [], ...others] = errors
  if (others.length === 0) return first
  const message = errors.map(([url, error]) => `${hostOf(url)}: ${reasonOf(error)}`).join('; ')
  return Object.assign(new Error(message), hasCode(first) ? { code: first.code } : {})
}

/**
 * Connects to the first of the hosts in `urls` that accepts, in their order. The next host is tried as soon as one rejects, and also
 * while one does not answer. The first connection wins.
 * @param close is called with a connection that comes too late
 * @throws the error of the only host, or one that names all hosts
 */
export function connectToFirst<C>(
  urls: readonly string[],
  connect: (url: string) => Promise<C>,
  close: (late: C) => void,
): Promise<C> {
  return new Promise((resolve, reject) => {
    const errors: (readonly [string, unknown])[] = []
    let started = 0
    let connected = false
    let timer: NodeJS.Timeout | undefined

    function startNext(): void {
      clearTimeout(timer)
      const url = urls[started]
      if (connected || url === undefined) return
      started++
      const attempt = connect(url)
      timer = setTimeout(startNext, ATTEMPT_DELAY_MS)
      attempt.then(
        connection => {
          if (connected) return close(connection)
          connected = true
          clearTimeout(timer)
          resolve(connection)
        },
        (error: unknown) => {
          errors.push([url, error])
          if (errors.length < urls.length) startNext()
          else reject(combined(errors))
        },
      )
    }
    startNext()
  })
}
