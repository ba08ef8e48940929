// The progress line of `npm run load`: rate, time left and width.
import test from 'ava'
import { createImportProgress } from '../../../src/cli/import/import-progress.ts'

const none = { created: 0, unchanged: 0, failed: 0 }

/** A terminal of `columns` and a clock, and the line that the terminal shows. */
function terminal(columns = 80) {
  let nowMs = 0
  let text = ''
  const output = {
    isTTY: true,
    columns,
    write: (part: string) => {
      text += part
      return true
    },
  }
  const progress = createImportProgress(output, () => nowMs)
  return {
    progress,
    at: (ms: number) => {
      nowMs = ms
    },
    text: () => text,
    line: () => text.split('\n').at(-1)?.split('\u001b[K').at(-1),
  }
}

test('progress: shows the rate and the time left', t => {
  const { progress, at, line } = terminal()
  const tallies = { people: { created: 900, unchanged: 90, failed: 10 }, groups: none, memberships: none }
  const cases: [number, number, RegExp][] = [
    [2_000, 0.1, /^\[##-{18}\] 10 % {2}1000 people, 10 failures, 500\/s, 18 s left$/],
    [100_000, 0.4, /, 10\/s, 2 min 30 s left$/],
    [1_000_000, 0.1, /, 1\/s, 2 h 30 min left$/],
    [2_000, 1, /^\[#{20}\] 100 % .*, 500\/s$/],
  ]
  for (const [ms, share, expected] of cases) {
    at(ms)
    progress.progress(share, tallies)
    t.regex(line() ?? '', expected)
  }
})

test('progress: fits on one line, and a failure is printed above it', t => {
  const { progress, at, line } = terminal(40)
  at(1)
  progress.progress(0.5, { people: { ...none, created: 1_000_000 }, groups: none, memberships: none })
  t.is(line()?.length, 39)
  const shown = line()
  progress.failed('line 3', 'unknown')
  t.is(line(), shown)
})

test('progress: the reason of a wait is printed once, and again if the import has gone on meanwhile', t => {
  const { progress, at, text } = terminal()
  at(1)
  for (let round = 0; round < 2; round++) {
    progress.waiting('away')
    progress.waiting('away')
    progress.progress(0.5, { people: none, groups: none, memberships: none })
  }
  t.is(text().match(/away/g)?.length, 2)
})
