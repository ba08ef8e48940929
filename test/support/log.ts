// The output of a service as complete lines, past and future.
import type { ChildProcess } from 'node:child_process'
import { EventEmitter, once } from 'node:events'

/** Shorter than AVA's timeout of a test, so that the error names the pattern. */
const MAX_WAIT_MS = 60_000

export type Log = ReturnType<typeof collectLog>

/** Collects the standard output and the standard error of a process and of the children that inherit them. */
export function collectLog({ stdout, stderr }: Pick<ChildProcess, 'stdout' | 'stderr'>) {
  let text = ''
  const output = new EventEmitter()
  for (const stream of [stdout, stderr])
    stream?.setEncoding('utf8').on('data', (part: string) => {
      text += part
      output.emit('data')
    })
  const lines = (pattern: RegExp): string[] =>
    text
      .split('\n')
      .slice(0, -1)
      .filter(line => pattern.test(line))

  return {
    /** Returns the output so far. */
    text: () => text,

    /** Returns the complete lines so far that match. */
    lines,

    /**
     * Waits for the line that matches for the `count`th time; it may have been written before.
     * @throws Error with the output if there is none after a minute
     */
    async line(pattern: RegExp, count = 1): Promise<string> {
      const signal = AbortSignal.timeout(MAX_WAIT_MS)
      for (;;) {
        const found = lines(pattern)[count - 1]
        if (found !== undefined) return found
        await once(output, 'data', { signal }).catch(() => {
          throw new Error(`fewer than ${count} lines match ${pattern} after ${MAX_WAIT_MS} ms:\n${text}`)
        })
      }
    },
  }
}
