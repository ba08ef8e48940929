// The linearizability checker accepts every possible history and reports every impossible read.
import test from 'ava'
import fc from 'fast-check'
import { findViolations, type Operation } from '../../faults/history.ts'

/** Overlapping reads and writes. Each operation takes effect at one instant between its begin and its end. */
const histories = fc
  .array(fc.record({ write: fc.boolean(), before: fc.nat(20), after: fc.nat(20) }), { maxLength: 60 })
  .map(steps => {
    let version = 0
    let lastWriteEnded = -1
    return steps.map(({ write, before, after }, index): Operation => {
      const instant = 10 * index + 5
      if (!write)
        return { register: 'r', kind: 'read', version, began: instant - before, ended: instant + after }
      // Writes of the one writer do not overlap.
      const began = Math.max(instant - before, lastWriteEnded)
      const ended = instant + Math.min(after, 4)
      lastWriteEnded = ended
      return { register: 'r', kind: 'write', version: ++version, began, ended }
    })
  })

test('history checker: a linearizable history has no violations', t => {
  fc.assert(fc.property(histories, history => t.deepEqual(findViolations(history), [])))
})

test('history checker: a read of a version older than an ended operation, or not yet written, is a violation', t => {
  const violations = fc.property(histories, fc.nat(), fc.boolean(), (history, offset, unwritten) => {
    const last = Math.max(0, ...history.map(({ version }) => version))
    const end = 10 * history.length + 100
    fc.pre(last > 0)
    const read: Operation = unwritten
      ? { register: 'r', kind: 'read', version: last + 1 + (offset % 5), began: 0, ended: end }
      : { register: 'r', kind: 'read', version: offset % last, began: end, ended: end + 1 }
    t.is(findViolations([...history, read]).length, 1)
  })
  fc.assert(violations)
})

test('history checker: during a write, a read older than a preceding read is a violation', t => {
  const write: Operation = { register: 'r', kind: 'write', version: 1, began: 0, ended: 100 }
  const reads = [1, 0].map((version, index): Operation => {
    return { register: 'r', kind: 'read', version, began: 10 + 10 * index, ended: 15 + 10 * index }
  })
  t.is(findViolations([write, ...reads]).length, 1)
  t.deepEqual(
    findViolations([
      write,
      ...reads
        .toReversed()
        .map((read, index) => ({ ...read, began: 10 + 10 * index, ended: 15 + 10 * index })),
    ]),
    [],
  )
})
