// The query parser: all encodings of a query are equivalent, and invalid input only causes ApiErrors.
import test from 'ava'
import fc from 'fast-check'
import { filtersOf } from '../../../src/api/requests/filters.ts'
import { createListParser, parsePagingQuery } from '../../../src/api/requests/query.ts'
import { parseQueryString } from '../../../src/api/requests/query-string.ts'
import { ApiError, Faults } from '../../../src/core/api-error.ts'
import { groups } from '../../../src/model/groups.ts'
import { users } from '../../../src/model/users.ts'

const limits = { filters: 20, recordsPerPage: 1000 }
const parseUsers = createListParser(users, limits)
const parse = (search: string) => {
  const { others: _, ...query } = parseUsers(search)
  return query
}

const id = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }).map(String)
const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 })
const pair = fc.oneof(
  fc.tuple(
    fc.constantFrom('first_name', 'last_name', 'groups[*].name', 'first_name[in]', 'last_name[prefix]'),
    text,
  ),
  fc.tuple(fc.constantFrom('id', 'groups[*].id', 'id[gt]', 'id[lt]', 'groups[*].id[in]'), id),
  fc.tuple(fc.constant('first_name[exists]'), fc.constantFrom('true', 'false')),
)

const percent = (byte: number, upper: boolean) => {
  const digits = byte.toString(16).padStart(2, '0')
  return `%${upper ? digits.toUpperCase() : digits}`
}

/** Encodes `text` as a form value. `choices` selects the optional escapes and the form of each escape. */
function encode(text: string, choices: readonly number[]): string {
  let at = 0
  const choose = () => choices[at++ % choices.length] ?? 0
  return Array.from(text, character => {
    const choice = choose()
    if (character === ' ' && choice % 2 === 0) return '+'
    const plain = /[A-Za-z0-9._~*[\],!\\-]/.test(character)
    if (plain && choice % 3 === 0) return character
    return [...Buffer.from(character)].map(byte => percent(byte, choice % 2 === 0)).join('')
  }).join('')
}

test('query: all encodings of a query are parsed equally', t => {
  const choices = fc.array(fc.nat(5), { minLength: 1, maxLength: 30 })
  const property = fc.property(fc.array(pair, { maxLength: 8 }), choices, choices, (pairs, one, other) => {
    const [first, second] = [one, other].map(each =>
      parse(pairs.map(([name, value]) => `${encode(name, each)}=${encode(value, each)}`).join('&')),
    )
    t.deepEqual(first, second)
    const names = pairs.map(([name]) => name)
    const repeatedLists = names.filter((name, at) => name.endsWith('[in]') && names.indexOf(name) < at)
    t.is(first?.filters.length, pairs.length - repeatedLists.length)
  })
  fc.assert(property, { numRuns: 500 })
})

test('query: a pair is rejected exactly if decodeURIComponent throws', t => {
  const piece = fc.oneof(
    fc.constantFrom(
      '%',
      '%4',
      '%41',
      '%c3',
      '%C3%A9',
      '%ED%A0%80',
      '%f0%9d%84%9e',
      '%EF%BB%BF',
      '%00',
      '%zz',
      '+',
      '=',
      'a',
    ),
    fc.nat(255).map(byte => percent(byte, byte % 2 === 0)),
  )
  const decode = (text: string) => decodeURIComponent(text.replaceAll('+', ' '))
  const property = fc.property(fc.array(piece, { minLength: 1, maxLength: 6 }), pieces => {
    const raw = pieces.join('')
    const [name = '', ...values] = raw.split('=')
    const faults = new Faults()
    const [pair] = parseQueryString(raw, faults)
    try {
      t.like(pair, { name: decode(name), value: decode(values.join('=')) })
      t.is(faults.listed.length, 0)
    } catch (error) {
      if (!(error instanceof URIError)) throw error
      t.is(pair, undefined)
      t.is(faults.listed.length, 1)
    }
  })
  fc.assert(property, { numRuns: 2000 })
})

test('query: a repeated [in] is one list and one filter, wherever the commas are', t => {
  const property = fc.property(
    fc.constantFrom('id[in]', 'groups[*].id[in]', 'first_name[in]', 'groups[*].name[in]'),
    fc.array(fc.array(id, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 50 }),
    (name, lists) => {
      const one = `${name}=${lists.flat().join()}`
      const [first, ...repeated] = lists.map(list => `${encodeURIComponent(name)}=${list.join()}`)
      t.deepEqual(
        parse([first, 'sort=id', 'id[gt]=1', ...repeated].join('&')),
        parse(`${one}&sort=id&id[gt]=1`),
      )
    },
  )
  fc.assert(property)
})

test('query: without parameters, all related records are shown, also more than the maximum', t => {
  const sizeOf = (search: string, count: number) => parsePagingQuery(search, 5, limits)(count).recordsPerPage
  t.is(sizeOf('', 3), 5)
  t.is(sizeOf('', 7), 7, 'the maximum has been lowered')
  t.is(sizeOf('start_index=1', 7), 5)
})

test('query: a literal value is returned unchanged if a leading ! or \\ is escaped', t => {
  const property = fc.property(fc.string({ unit: 'binary' }), value => {
    const escaped = /^[!\\]/.test(value) ? `\\${value}` : value
    const [equals] = parse(`first_name=${encodeURIComponent(escaped)}`).filters
    t.deepEqual(equals?.comparison, { operator: 'equals', value })
    const [differs] = parse(`first_name=!${encodeURIComponent(value)}`).filters
    t.deepEqual(differs?.comparison, { operator: 'differs', value })
  })
  fc.assert(property, { numRuns: 500 })
})

test('query: any input is either parsed or rejected with faults', t => {
  const names = [...filtersOf(users).keys(), 'sort', 'include', 'start_index', 'records_per_page', 'x']
  const nearlyValid = fc
    .array(fc.tuple(fc.constantFrom(...names), fc.string({ unit: 'binary' })), { maxLength: 25 })
    .map(pairs => pairs.map(([name, value]) => `${name}=${value}`).join('&'))
  const bytes = fc.uint8Array({ maxLength: 80 }).map(array => Buffer.from(array).toString('latin1'))
  const property = fc.property(
    fc.oneof(nearlyValid, bytes),
    fc.constantFrom(parseUsers, createListParser(groups, limits)),
    (search, parse) => {
      try {
        t.truthy(parse(search))
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        t.is(error.status, 400)
        t.true(error.faults.length > 0)
      }
    },
  )
  fc.assert(property, { numRuns: 2000 })
})
