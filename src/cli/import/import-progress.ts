// The progress of an import: a bar on a terminal, which is redrawn, and a line for each failure.
import type { WriteStream } from 'node:tty'
import { columnsOf } from '../command-line.ts'
import { formatSpan } from '../time-span.ts'
import type { Tallies } from './importer.ts'

const WIDTH = 20
const CLEAR = '\r\u001b[K'

/** @param now the time in milliseconds */
export function createImportProgress(
  output: Pick<WriteStream, 'columns' | 'isTTY' | 'write'>,
  now = () => performance.now(),
) {
  const startedMs = now()
  let bar = ''
  let lastWait = ''

  function draw(): void {
    // A bar that is longer than a line could not be redrawn.
    if (output.isTTY) output.write(CLEAR + bar.slice(0, columnsOf(output) - 1))
  }

  function print(line: string): void {
    output.write(`${output.isTTY ? CLEAR : ''}${line}\n`)
    draw()
  }

  return {
    progress(share: number, { people, memberships }: Tallies): void {
      const full = Math.round(share * WIDTH)
      const done = people.created + people.unchanged + people.failed
      const failed = people.failed + memberships.failed
      const elapsedMs = now() - startedMs
      const perSecond = Math.round((1000 * done) / elapsedMs)
      const left = share < 1 ? `, ${formatSpan((elapsedMs * (1 - share)) / share)} left` : ''
      lastWait = ''
      bar = `[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${Math.floor(share * 100)} %  ${done} people, ${failed} failures, ${perSecond}/s${left}`
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
