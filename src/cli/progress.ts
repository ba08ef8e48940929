// The progress of a command that takes a while: a line for each, and on a terminal how long the present one has taken.

const TICK_MS = 200
/** What is faster needs no figure. */
const NOTABLE_MS = 1000

export type Progress = ReturnType<typeof createProgress>

/** @param output is drawn on again and again where it is a terminal; elsewhere it gets whole lines */
export function createProgress(output: Pick<NodeJS.WriteStream, 'isTTY' | 'write'>) {
  let title: string | undefined
  let sinceMs = 0
  let timer: NodeJS.Timeout | undefined

  function draw(): void {
    const tookMs = performance.now() - sinceMs
    const figure = tookMs < NOTABLE_MS ? '' : `  ${Math.floor(tookMs / 1000)} s`
    output.write(`\r\u001b[K${title}${figure}`)
  }

  function end(): void {
    clearInterval(timer)
    if (title !== undefined && output.isTTY) {
      draw()
      output.write('\n')
    }
    title = undefined
  }

  return {
    /** The step before this one is over. */
    begin(line: string): void {
      end()
      title = `users-api: ${line}`
      sinceMs = performance.now()
      if (!output.isTTY) output.write(`${title}\n`)
      else {
        draw()
        timer = setInterval(draw, TICK_MS)
      }
    },
    /** The last one is over. */
    end,
  }
}
