// If-Match and If-None-Match as specified in RFC 9110, section 13.
import type { IncomingHttpHeaders } from 'node:http'
import test from 'ava'
import fc from 'fast-check'
import { isUnmodified, writeCondition } from '../../../src/api/requests/preconditions.ts'
import { ApiError } from '../../../src/core/api-error.ts'

const isAllowed = (headers: IncomingHttpHeaders, etag: string) =>
  writeCondition(headers)?.(one => one === etag)

/** A character of an ETag, RFC 9110, section 8.8.3. */
const etagc = fc.integer({ min: 0x21, max: 0xff }).filter(code => code !== 0x22 && code !== 0x7f)
const opaque = fc
  .array(etagc, { maxLength: 6 })
  .map(codes => String.fromCharCode(...codes.filter(code => code < 0x7f || code >= 0x80)))
const tags = fc.array(fc.record({ weak: fc.boolean(), opaque }), { maxLength: 5 })
const separator = fc.constantFrom(',', ', ', ' ,', ',,', ', ,\t')

test('preconditions: without headers there is no condition', t => {
  t.is(writeCondition({}), undefined)
  t.false(isUnmodified({}, 'a'))
})

test('preconditions: If-Match compares strongly and If-None-Match weakly with every ETag of the list', t => {
  const property = fc.property(tags, separator, opaque, (list, between, current) => {
    const text = list.map(({ weak, opaque }) => `${weak ? 'W/' : ''}"${opaque}"`).join(between)
    const strong = list.some(tag => !tag.weak && tag.opaque === current)
    const weak = list.some(tag => tag.opaque === current)
    t.is(isAllowed({ 'if-match': text }, current), strong)
    t.is(isAllowed({ 'if-none-match': text }, current), !weak)
    t.is(isUnmodified({ 'if-none-match': text }, current), weak)
    t.is(isAllowed({ 'if-match': text, 'if-none-match': text }, current), strong && !weak)
  })
  fc.assert(property)
})

test('preconditions: * matches any ETag', t => {
  t.true(isAllowed({ 'if-match': '*' }, 'a'))
  t.false(isAllowed({ 'if-none-match': '*' }, 'a'))
  t.true(isUnmodified({ 'if-none-match': '*' }, 'a'))
})

test('preconditions: a failed If-Match takes precedence over If-None-Match in reads', t => {
  const headers = { 'if-match': '"b"', 'if-none-match': '"a"' }
  t.like(
    t.throws(() => isUnmodified(headers, 'a'), { any: true, instanceOf: ApiError }),
    { code: 'precondition_failed' },
  )
})

test('preconditions: a malformed list of ETags is malformed_request', t => {
  const malformed = [
    'a',
    '"a',
    'a"',
    '"a" "b"',
    '"a"b',
    'w/"a"',
    'W/',
    '"a", *',
    '*, *',
    "'a'",
    '"a\u007f"',
    '"a b"',
  ]
  for (const text of malformed)
    for (const name of ['if-match', 'if-none-match'])
      t.like(
        t.throws(() => writeCondition({ [name]: text }), { any: true, instanceOf: ApiError }, text),
        { code: 'malformed_request', status: 400 },
      )
})

test('preconditions: a long list with an invalid end is rejected as a whole', t => {
  const text = `${'"", ,'.repeat(3000)}x`
  t.throws(() => writeCondition({ 'if-match': text }), { any: true, instanceOf: ApiError })
})
