// The progress of a command in steps: one line per step. On a terminal, the line of the current step shows its
// duration.

const TICK_MS = 200
/** Steps that are shorter than this show no duration. */
const MIN_SHOWN_MS = 1000

export type Progress = ReturnType<typeof createProgress>

/** @param output a terminal, whose current line is redrawn, or a file, which receives whole lines */
export function createProgress(output: Pick<NodeJS.WriteStream, 'isTTY' | 'write'>) {
  let title: string | undefined
  let startedMs = 0
  let timer: NodeJS.Timeout | undefined

  function draw(): void {
    const elapsedMs = performance.now() - startedMs
    const duration = elapsedMs < MIN_SHOWN_MS ? '' : `  ${Math.floor(elapsedMs / 1000)} s`
    output.write(`\r\u001b[K${title}${duration}`)
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
    /** Begins a step and ends the previous one. */
    begin(line: string): void {
      end()
      title = `users-api: ${line}`
      startedMs = performance.now()
      if (!output.isTTY) output.write(`${title}\n`)
      else {
        draw()
        timer = setInterval(draw, TICK_MS)
      }
    },
    end,
  }
}
