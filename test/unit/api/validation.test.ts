// Validation of request bodies: the fault codes of checkBody in every mode.
import test from 'ava'
import { checkBody, type Mode } from '../../../src/api/requests/validation.ts'
import { isObject, type JsonObject } from '../../../src/core/json-object.ts'
import { groups } from '../../../src/model/groups.ts'
import { MAX_ID, type Resource, type TextField } from '../../../src/model/resource.ts'
import { users } from '../../../src/model/users.ts'
import { booksWith } from '../../support/books.ts'
import { checked, codesOf } from '../../support/faults.ts'

/** A resource with one field of each kind and limits that are easy to reach. */
const books = booksWith(3, 'create')
const pathId = 7
const modes: Mode[] = ['create', 'replace', 'patch']

const check = (mode: Mode, body: JsonObject, resource = books) =>
  checked(faults => checkBody(resource, body, mode, faults, mode === 'create' ? undefined : pathId))
/** Returns the outcome of a title: its stored value, or its faults. */
const titleOf = (mode: Mode, title: unknown) => {
  const { values, faults } = check(mode, { title, note: 'abc' })
  return faults.length > 0 ? codesOf(faults) : values.title
}

test('validation: only JSON objects are objects', t => {
  for (const value of [{}, { a: 1 }]) t.true(isObject(value))
  for (const value of [null, undefined, [], [{}], 'a', 1, true]) t.false(isObject(value))
})

for (const mode of modes)
  test(`validation: ${mode} returns valid fields unchanged and without faults`, t => {
    const fields = { title: ' a ', note: 'é😀' }
    t.deepEqual(check(mode, fields), { values: fields, faults: [] })
    t.deepEqual(check(mode, { ...fields, meta: 'ignored' }), { values: fields, faults: [] })
  })

const missing: [mode: Mode, value: null | undefined, values: object, faults: string[]][] = [
  ['create', undefined, {}, ['title missing_field', 'note missing_field']],
  ['create', null, {}, ['title missing_field', 'note missing_field']],
  ['replace', undefined, { note: null }, ['title missing_field']],
  ['replace', null, { note: null }, ['title missing_field']],
  ['patch', undefined, {}, []],
  ['patch', null, { note: null }, ['title missing_field']],
]
for (const [mode, value, values, faults] of missing)
  test(`validation: ${mode} with ${value === null ? 'null' : 'missing'} fields`, t => {
    for (const body of value === null ? [{ title: null, note: null }] : [{}, { title: undefined }]) {
      const outcome = check(mode, body)
      t.deepEqual(outcome.values, values)
      t.deepEqual(codesOf(outcome.faults), faults)
    }
  })

test('validation: an optional field may be missing in every mode, and a null removes it', t => {
  const field: TextField = { maxCodePoints: 3, required: false, example: 'abc' }
  const resource: Resource = { ...books, fields: { ...books.fields, hint: field } }
  const fields = { title: 'a', note: 'b' }
  for (const body of [fields, { ...fields, hint: null }]) {
    t.deepEqual(check('create', body, resource), { values: fields, faults: [] })
    t.deepEqual(check('replace', body, resource), { values: { ...fields, hint: null }, faults: [] })
  }
  t.deepEqual(check('patch', {}, resource), { values: {}, faults: [] })
  t.deepEqual(check('patch', { hint: null }, resource), { values: { hint: null }, faults: [] })
  for (const mode of modes) {
    t.is(check(mode, { ...fields, hint: 'abc' }, resource).values.hint, 'abc')
    t.deepEqual(codesOf(check(mode, { ...fields, hint: '' }, resource).faults), ['hint invalid_field'])
  }
})

test('validation: patch leaves fields that are not sent unchanged', t => {
  t.deepEqual(check('patch', { note: 'new' }), { values: { note: 'new' }, faults: [] })
  t.deepEqual(check('patch', { title: 'new' }), { values: { title: 'new' }, faults: [] })
})

for (const mode of modes) {
  test(`validation: ${mode} rejects values that are not strings`, t => {
    for (const value of [0, 1, true, false, [], ['abc'], {}, { toString: 'abc' }])
      t.deepEqual(titleOf(mode, value), ['title invalid_field'], JSON.stringify(value))
  })

  test(`validation: ${mode} accepts 1 to maxCodePoints code points`, t => {
    // A letter with a combining accent is two code points, an emoji is one code point of two UTF-16 units.
    for (const title of ['a', 'abc', '😀', '😀😀😀', 'a😀b', 'e\u0301x', '\u{10ffff}\u{10ffff}\u{10ffff}'])
      t.is(titleOf(mode, title), title)
    for (const title of ['', 'abcd', '😀😀😀😀', '😀😀ab', 'e\u0301xy', 'a'.repeat(7), '😀'.repeat(1000)])
      t.deepEqual(titleOf(mode, title), ['title invalid_field'], title.slice(0, 20))
  })

  test(`validation: ${mode} rejects control characters anywhere`, t => {
    const controls = [...Array(0x20).keys(), ...Array.from({ length: 0x21 }, (_, at) => 0x7f + at)]
    for (const control of controls.map(code => String.fromCodePoint(code)))
      for (const title of [control, `${control}a`, `a${control}`, `a${control}b`])
        t.deepEqual(titleOf(mode, title), ['title invalid_field'], JSON.stringify(title))
    for (const neighbour of ['\u0020', '\u007e', '\u00a0', '\u00ad', '\u200b', '\ufeff', '\ue000'])
      t.is(titleOf(mode, `a${neighbour}b`), `a${neighbour}b`)
  })

  test(`validation: ${mode} rejects lone surrogates and accepts pairs`, t => {
    for (const title of ['\ud800', '\udfff', 'a\ud83d', '\ude00a', '\ude00\ud83d', '\ud83d\ud83d\ude00'])
      t.deepEqual(titleOf(mode, title), ['title invalid_field'], JSON.stringify(title))
    t.is(titleOf(mode, '\ud83d\ude00'), '😀')
  })

  test(`validation: ${mode} rejects white space only and keeps it around other characters`, t => {
    const spaces = ' \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a'
    for (const space of `${spaces}\u2028\u2029\u202f\u205f\u3000`) {
      for (const title of [space, ` ${space}`])
        t.deepEqual(titleOf(mode, title), ['title invalid_field'], JSON.stringify(title))
      t.is(titleOf(mode, `${space}a${space}`), `${space}a${space}`)
    }
    // Invisible, but without the property White_Space.
    for (const title of ['\u180e', '\u200b', '\u2060', '\ufeff', '\u0301']) t.is(titleOf(mode, title), title)
  })

  test(`validation: ${mode} rejects unknown fields and names of Object.prototype`, t => {
    for (const field of ['age', 'Title', 'title ', '', 'toString', 'constructor', 'hasOwnProperty']) {
      const { values, faults } = check(mode, { title: 'a', note: 'b', [field]: 'c' })
      t.deepEqual(codesOf(faults), [`${field} unknown_field`])
      t.deepEqual(values, { title: 'a', note: 'b' })
    }
    const withProto: JsonObject = JSON.parse('{"title":"a","note":"b","__proto__":{"title":"c"}}')
    const { values, faults } = check(mode, withProto)
    t.deepEqual(codesOf(faults), ['__proto__ unknown_field'])
    t.deepEqual(values, { title: 'a', note: 'b' })
  })
}

test('validation: inherited properties are not fields', t => {
  const field: TextField = { maxCodePoints: 3, required: 'create', example: 'abc' }
  const resource: Resource = { ...books, fields: Object.fromEntries([['toString', field]]) }
  t.deepEqual(codesOf(check('create', {}, resource).faults), ['toString missing_field'])
  t.deepEqual(check('replace', {}, resource), { values: { toString: null }, faults: [] })
  t.deepEqual(check('patch', {}, resource), { values: {}, faults: [] })
  t.deepEqual(check('create', { toString: 'abc' }, resource), { values: { toString: 'abc' }, faults: [] })
})

test('validation: the limit of a fault message is that of the field', t => {
  const tooLong = { title: 'abcd', note: 'a' }
  t.regex(check('create', tooLong).faults[0]?.message ?? '', /^title: .*\b3\b/)
  const body = { first_name: 'é'.repeat(255), last_name: '😀'.repeat(256) }
  const { values, faults } = check('create', body, users)
  t.deepEqual(values, { first_name: body.first_name })
  t.deepEqual(codesOf(faults), ['last_name invalid_field'])
  t.regex(faults[0]?.message ?? '', /^last_name: .*\b255\b/)
})

const ids: [mode: Mode, id: unknown, faults: string[]][] = [
  ['create', undefined, []],
  ['create', null, []],
  ['create', pathId, ['id invalid_field']],
  ['create', '7', ['id invalid_field']],
  ['create', false, ['id invalid_field']],
  ['replace', undefined, []],
  ['replace', null, []],
  ['patch', undefined, []],
  ['patch', null, ['id invalid_field']],
  ...(['replace', 'patch'] as const).flatMap((mode): [Mode, unknown, string[]][] => [
    [mode, pathId, []],
    ...['7', '', true, [7], {}].map((id): [Mode, unknown, string[]] => [mode, id, ['id invalid_field']]),
    ...[8, 0, -7, 7.5, MAX_ID, Number.POSITIVE_INFINITY].map((id): [Mode, unknown, string[]] => [
      mode,
      id,
      ['id id_mismatch'],
    ]),
  ]),
]
test('validation: id must equal the id of the path, and must not be set in create', t => {
  for (const [mode, id, faults] of ids) {
    const outcome = check(mode, { id, title: 'a', note: 'b' })
    t.deepEqual(codesOf(outcome.faults), faults, `${mode} ${JSON.stringify(id)}`)
    t.deepEqual(outcome.values, { title: 'a', note: 'b' })
  }
})

for (const mode of modes)
  test(`validation: ${mode} rejects the name of the relation and names its endpoint`, t => {
    const names = { first_name: 'a', last_name: 'b' }
    const { faults } = check(mode, { ...names, groups: [] }, users)
    t.deepEqual(codesOf(faults), ['groups invalid_field'])
    t.regex(faults[0]?.message ?? '', /^groups: .*\/v1\/users\/<id>\/groups/)
    t.deepEqual(codesOf(check(mode, { name: 'a', users: [] }, groups).faults), ['users unknown_field'])
    t.deepEqual(codesOf(check(mode, { name: 'a', groups: [] }, groups).faults), ['groups unknown_field'])
  })

test('validation: all faults are reported, first id, then the fields, then unknown fields', t => {
  const body = { zeta: 1, note: 5, alpha: 2, id: 8, title: '' }
  const fields = ['title invalid_field', 'note invalid_field', 'zeta unknown_field', 'alpha unknown_field']
  t.deepEqual(codesOf(check('create', body).faults), ['id invalid_field', ...fields])
  for (const mode of ['replace', 'patch'] as const)
    t.deepEqual(codesOf(check(mode, body).faults), ['id id_mismatch', ...fields])
})

test('validation: valid fields are returned beside faults', t => {
  for (const mode of modes)
    t.deepEqual(check(mode, { title: 'abc', note: '', other: 1 }).values, { title: 'abc' })
})

test('validation: every message begins with or quotes its field', t => {
  const { faults } = check('patch', { id: 8, title: '', note: 5, other: 1 })
  for (const { message, ...fault } of faults)
    t.true('field' in fault && message.replace(/^"/, '').startsWith(fault.field), message)
  t.is(faults.length, 4)
})

test('validation: names of unknown fields are cut after 100 code points', t => {
  const name = '😀'.repeat(100)
  t.deepEqual(codesOf(check('patch', { [name]: 1 }).faults), [`${name} unknown_field`])
  t.deepEqual(codesOf(check('patch', { [`${name}x`]: 1 }).faults), [`${name}… unknown_field`])
})
