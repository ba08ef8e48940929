// If-Match and If-None-Match as RFC 9110, section 13, reads them.
import type { IncomingHttpHeaders } from 'node:http'
import test from 'ava'
import fc from 'fast-check'
import { isUnmodified, writeCondition } from '../../../src/api/requests/preconditions.ts'
import { ApiError } from '../../../src/core/api-error.ts'

const may = (headers: IncomingHttpHeaders, etag: string) => writeCondition(headers)?.(one => one === etag)

/** A character of an ETag, section 8.8.3. */
const etagc = fc.integer({ min: 0x21, max: 0xff }).filter(code => code !== 0x22 && code !== 0x7f)
const opaque = fc
  .array(etagc, { maxLength: 6 })
  .map(codes => String.fromCharCode(...codes.filter(code => code < 0x7f || code >= 0x80)))
const tags = fc.array(fc.record({ weak: fc.boolean(), opaque }), { maxLength: 5 })
const separator = fc.constantFrom(',', ', ', ' ,', ',,', ', ,\t')

test('no header, no condition', t => {
  t.is(writeCondition({}), undefined)
  t.false(isUnmodified({}, 'a'))
})

test('lists are read as they were written: strong comparison for If-Match, weak for If-None-Match', t => {
  const property = fc.property(tags, separator, opaque, (list, between, current) => {
    const text = list.map(({ weak, opaque }) => `${weak ? 'W/' : ''}"${opaque}"`).join(between)
    const strongly = list.some(tag => !tag.weak && tag.opaque === current)
    const weakly = list.some(tag => tag.opaque === current)
    t.is(may({ 'if-match': text }, current), strongly)
    t.is(may({ 'if-none-match': text }, current), !weakly)
    t.is(isUnmodified({ 'if-none-match': text }, current), weakly)
    t.is(may({ 'if-match': text, 'if-none-match': text }, current), strongly && !weakly)
  })
  fc.assert(property)
})

test('* is whatever there is', t => {
  t.true(may({ 'if-match': '*' }, 'a'))
  t.false(may({ 'if-none-match': '*' }, 'a'))
  t.true(isUnmodified({ 'if-none-match': '*' }, 'a'))
})

test('a read whose If-Match fails is refused, whatever If-None-Match says', t => {
  const headers = { 'if-match': '"b"', 'if-none-match': '"a"' }
  t.like(
    t.throws(() => isUnmodified(headers, 'a'), { instanceOf: ApiError }),
    { code: 'precondition_failed' },
  )
})

test('what is no list of ETags is malformed', t => {
  const broken = [
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
  for (const text of broken)
    for (const name of ['if-match', 'if-none-match'])
      t.like(
        t.throws(() => writeCondition({ [name]: text }), { instanceOf: ApiError }, text),
        { code: 'malformed_request', status: 400 },
      )
})

test('a long list with a bad end is refused as a whole', t => {
  const text = `${'"", ,'.repeat(3000)}x`
  t.throws(() => writeCondition({ 'if-match': text }), { instanceOf: ApiError })
})
