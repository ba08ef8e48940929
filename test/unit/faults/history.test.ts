// The checker of histories finds what is impossible, and nothing else.
import test from 'ava'
import fc from 'fast-check'
import { impossibleReads, type Seen } from '../../faults/history.ts'

/** Reads and writes that overlap, each of which happens at one moment between its beginning and its end. */
const histories = fc
  .array(fc.record({ write: fc.boolean(), before: fc.nat(20), after: fc.nat(20) }), { maxLength: 60 })
  .map(steps => {
    let version = 0
    let lastWriteEnded = -1
    return steps.map(({ write, before, after }, index): Seen => {
      const moment = 10 * index + 5
      if (!write)
        return { register: 'r', kind: 'read', version, began: moment - before, ended: moment + after }
      // The writer does one thing after the other.
      const began = Math.max(moment - before, lastWriteEnded)
      const ended = moment + Math.min(after, 4)
      lastWriteEnded = ended
      return { register: 'r', kind: 'write', version: ++version, began, ended }
    })
  })

test('a history of a register that works is possible', t => {
  fc.assert(fc.property(histories, history => t.deepEqual(impossibleReads(history), [])))
})

test('a read that shows less than was over before it, or what nobody has written yet, is impossible', t => {
  const wrong = fc.property(histories, fc.nat(), fc.boolean(), (history, at, early) => {
    const last = Math.max(0, ...history.map(({ version }) => version))
    const end = 10 * history.length + 100
    fc.pre(last > 0)
    const read: Seen = early
      ? { register: 'r', kind: 'read', version: last + 1 + (at % 5), began: 0, ended: end }
      : { register: 'r', kind: 'read', version: at % last, began: end, ended: end + 1 }
    t.is(impossibleReads([...history, read]).length, 1)
  })
  fc.assert(wrong)
})

test('a second read may not show less than the first, even while the write is under way', t => {
  const write: Seen = { register: 'r', kind: 'write', version: 1, began: 0, ended: 100 }
  const reads = [1, 0].map((version, index): Seen => {
    return { register: 'r', kind: 'read', version, began: 10 + 10 * index, ended: 15 + 10 * index }
  })
  t.is(impossibleReads([write, ...reads]).length, 1)
  t.deepEqual(
    impossibleReads([
      write,
      ...reads
        .toReversed()
        .map((read, index) => ({ ...read, began: 10 + 10 * index, ended: 15 + 10 * index })),
    ]),
    [],
  )
})
