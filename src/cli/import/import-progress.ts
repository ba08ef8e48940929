// The progress of an import: a bar on a terminal, which is redrawn, and a line for each failure.
import type { WriteStream } from 'node:tty'
import type { Tallies } from './importer.ts'

const WIDTH = 30
const CLEAR = '\r\u001b[K'

export function createImportProgress(output: WriteStream) {
  let bar = ''
  let lastWait = ''

  function draw(): void {
    if (output.isTTY) output.write(CLEAR + bar)
  }

  /** Prints a line above the bar. */
  function print(line: string): void {
    output.write(`${output.isTTY ? CLEAR : ''}${line}\n`)
    draw()
  }

  return {
    progress(share: number, { people, memberships }: Tallies): void {
      const full = Math.round(share * WIDTH)
      const done = people.created + people.unchanged + people.failed
      const failed = people.failed + memberships.failed
      lastWait = ''
      bar = `[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${Math.floor(share * 100)} %  ${done} people, ${failed} failures`
      draw()
    },
    failed: (what: string, reason: string): void => print(`${what}: ${reason}`),
    /** Prints that a request waits. Several requests that wait for the same reason print one line. */
    waiting(line: string): void {
      if (line === lastWait) return
      lastWait = line
      print(line)
    },
    end(): void {
      if (output.isTTY && bar !== '') output.write('\n')
    },
  }
}
