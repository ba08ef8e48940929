// The trace context in the traceparent header: valid values are parsed, invalid ones are ignored.
import test from 'ava'
import fc from 'fast-check'
import { traceOf } from '../../../src/listener/request-identity.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const parentId = '00f067aa0ba902b7'
const of = (traceparent: string) => traceOf({ traceparent })

test('traceparent: a valid header of version 00 or a later version is parsed', t => {
  t.deepEqual(of(`00-${traceId}-${parentId}-01`), { traceId, parentId })
  t.deepEqual(of(`cc-${traceId}-${parentId}-01-what-the-future-holds`), { traceId, parentId })
  t.deepEqual(of(`cc-${traceId}-${parentId}-01`), { traceId, parentId })
})

test('traceparent: a missing or invalid header is ignored', t => {
  t.is(traceOf({}), undefined)
  for (const invalid of [
    '',
    `00-${traceId}-${parentId}`,
    `00-${traceId}-${parentId}-01-more`,
    `cc-${traceId}-${parentId}-01more`,
    `ff-${traceId}-${parentId}-01`,
    `00-${'0'.repeat(32)}-${parentId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${parentId}-01`,
    `00-${traceId}-${parentId}-01, 00-${traceId}-${parentId}-01`,
    ` 00-${traceId}-${parentId}-01`,
  ])
    t.is(of(invalid), undefined, invalid)
})

test('traceparent: any two ids are parsed unchanged, and one wrong character invalidates the header', t => {
  const hex = (length: number) =>
    fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: length, maxLength: length })
  fc.assert(
    fc.property(
      hex(32),
      hex(16),
      hex(2),
      fc.nat(54),
      fc.constantFrom(...'Gg +x'),
      (trace, parent, flags, at, wrong) => {
        const text = `00-${trace}-${parent}-${flags}`
        const valid = /[^0]/.test(trace) && /[^0]/.test(parent)
        t.deepEqual(of(text), valid ? { traceId: trace, parentId: parent } : undefined)
        t.is(of(text.slice(0, at) + wrong + text.slice(at + 1)), undefined)
      },
    ),
  )
})
