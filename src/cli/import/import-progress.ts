// The progress of an import: a line on a terminal, which is redrawn, and a line for each failure.
import type { WriteStream } from 'node:tty'
import { printable } from '../../core/quoted.ts'
import { columnsOf } from '../command-line.ts'

const CLEAR = '\r\u001b[K'

interface Tally {
  created: number
  unchanged: number
  failed: number
}
export type Tallies = Readonly<Record<'users' | 'groups' | 'memberships', Tally>>

export type ImportProgress = ReturnType<typeof createImportProgress>

export function createImportProgress(output: Pick<WriteStream, 'columns' | 'isTTY' | 'write'>) {
  let shown = ''
  let lastWait = ''

  function draw(): void {
    // A text that is longer than a line could not be redrawn.
    if (output.isTTY) output.write(CLEAR + shown.slice(0, columnsOf(output) - 1))
  }

  function print(line: string): void {
    output.write(`${output.isTTY ? CLEAR : ''}${printable(line)}\n`)
    draw()
  }

  return {
    /** @param share the processed share of the file, from 0 to 1 */
    progress(share: number, { users, memberships }: Tallies): void {
      const done = users.created + users.unchanged + users.failed
      const failed = users.failed + memberships.failed
      lastWait = ''
      shown = `${Math.floor(share * 100)} %  ${done} users, ${failed} failures`
      draw()
    },
    /** @param what the entry that failed */
    failed: (what: string, reason: string): void => print(`${what}: ${reason}`),
    /** Prints that a request waits. Several requests that wait for the same reason print one line. */
    waiting(line: string): void {
      if (line === lastWait) return
      lastWait = line
      print(line)
    },
    end(): void {
      if (output.isTTY && shown !== '') output.write('\n')
    },
  }
}
