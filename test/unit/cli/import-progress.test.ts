// The progress line of `npm run load`: what it shows, and its width.
import test from 'ava'
import { createImportProgress } from '../../../src/cli/import/import-progress.ts'

const none = { created: 0, unchanged: 0, failed: 0 }

/** A terminal of `columns`, and the line that it shows. */
function terminal(columns = 80) {
  let text = ''
  const output = {
    isTTY: true,
    columns,
    write: (part: string) => {
      text += part
      return true
    },
  }
  return {
    progress: createImportProgress(output),
    text: () => text,
    line: () => text.split('\n').at(-1)?.split('\u001b[K').at(-1),
  }
}

test('progress: shows the share of the file, and how many users and failures there are', t => {
  const { progress, line } = terminal()
  const memberships = { ...none, failed: 2 }
  progress.progress(0.109, { users: { created: 900, unchanged: 90, failed: 10 }, groups: none, memberships })
  t.is(line(), '10 %  1000 users, 12 failures')
  progress.end()
  t.is(line(), '', 'what follows has a line of its own')
})

test('progress: fits on one line, and a failure is printed above it', t => {
  const { progress, line } = terminal(20)
  progress.progress(0.5, { users: { ...none, created: 1_000_000 }, groups: none, memberships: none })
  t.is(line()?.length, 19)
  const shown = line()
  progress.failed('line 3', 'unknown')
  t.is(line(), shown)
})

test('progress: the reason of a wait is printed once, and again if the import has gone on meanwhile', t => {
  const { progress, text } = terminal()
  for (let round = 0; round < 2; round++) {
    progress.waiting('away')
    progress.waiting('away')
    progress.progress(0.5, { users: none, groups: none, memberships: none })
  }
  t.is(text().match(/away/g)?.length, 2)
})

test('progress: control characters in the file and in a response do not reach the terminal', t => {
  const { progress, text } = terminal()
  progress.failed('line 3: "a\u009b31m"', 'b\u001b]0;c\u0007')
  progress.waiting('waiting for d\u001b[2J')
  t.is(text().replaceAll('\r\u001b[K', ''), 'line 3: "a?31m": b?]0;c?\nwaiting for d?[2J\n')
})
