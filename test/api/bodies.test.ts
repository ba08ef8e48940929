// Validation of user request bodies: which fields and values are accepted, and which faults are reported.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'

const { api, close } = await openApi()
test.after.always(close)

let sequence = 0
/** Returns a last name that no other test of this file uses. */
const unique = () => `Lovelace ${++sequence}`
const createUser = (last_name = unique()) => api.create('/v1/users', { first_name: 'Ada', last_name })

const faultyBodies: [title: string, body: object, faults: Record<string, string>][] = [
  ['last_name missing', { first_name: 'a' }, { last_name: 'missing_field' }],
  ['first_name missing', { last_name: 'a' }, { first_name: 'missing_field' }],
  ['both missing', {}, { first_name: 'missing_field', last_name: 'missing_field' }],
  ['null counts as missing', { first_name: null, last_name: 'a' }, { first_name: 'missing_field' }],
  ['a number as name', { first_name: 1, last_name: 'a' }, { first_name: 'invalid_field' }],
  ['a boolean as name', { first_name: false, last_name: 'a' }, { first_name: 'invalid_field' }],
  ['an array as name', { first_name: ['a'], last_name: 'a' }, { first_name: 'invalid_field' }],
  ['an object as name', { first_name: { a: 1 }, last_name: 'a' }, { first_name: 'invalid_field' }],
  ['an empty name', { first_name: '', last_name: 'a' }, { first_name: 'invalid_field' }],
  ['a name of white space only', { first_name: ' \u3000', last_name: 'a' }, { first_name: 'invalid_field' }],
  ['a control character', { first_name: 'a\tb', last_name: 'a' }, { first_name: 'invalid_field' }],
  ['id set', { id: 1, first_name: 'a', last_name: 'b' }, { id: 'invalid_field' }],
  ['groups set', { first_name: 'a', last_name: 'b', groups: [] }, { groups: 'invalid_field' }],
  ['an unknown field', { first_name: 'a', last_name: 'b', age: 1 }, { age: 'unknown_field' }],
  [
    'a field name in another case',
    { first_name: 'a', Last_name: 'b' },
    { last_name: 'missing_field', Last_name: 'unknown_field' },
  ],
  [
    'field names of Object.prototype',
    { first_name: 'a', last_name: 'b', toString: 1, constructor: 2 },
    { toString: 'unknown_field', constructor: 'unknown_field' },
  ],
  [
    'several faults at once',
    { id: 7, first_name: '', nick: 'x' },
    { id: 'invalid_field', first_name: 'invalid_field', last_name: 'missing_field', nick: 'unknown_field' },
  ],
]
for (const [title, body, faults] of faultyBodies)
  test(`bodies: POST rejects ${title}`, async t => {
    const answer = await api.post('/v1/users', body)
    expectError(t, answer, 400, ...Object.values(faults))
    expectFaults(t, answer, faults)
  })

test('bodies: POST rejects names of 256 code points', async t => {
  const answer = await api.post('/v1/users', { first_name: 'a'.repeat(256), last_name: unique() })
  expectError(t, answer, 400, 'invalid_field', 'limit_exceeded')
  t.deepEqual(
    answer.body.meta.errors?.map(fault => fault.field),
    ['first_name'],
  )
})

/** Returns a body with `count` unknown fields. */
const unknownFields = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, 0]))

test('bodies: at most 100 faults are listed, the rest are counted', async t => {
  const id = await createUser()
  const { meta } = (await api.patch(`/v1/users/${id}`, unknownFields(100))).body
  t.is(meta.errors?.length, 100)
  t.notRegex(meta.message ?? '', / more$/)
  const answer = await api.patch(`/v1/users/${id}`, unknownFields(60_000))
  expectError(t, answer, 400, 'unknown_field')
  t.deepEqual(answer.body.meta.errors, meta.errors)
  t.is(answer.body.meta.message, `${meta.message}; and 59900 more`)
  const groups = await api.post(`/v1/users/${id}/groups`, unknownFields(60_000))
  t.is(groups.body.meta.errors?.length, 100)
  const parameters = await api.get(`/v1/users?${Object.keys(unknownFields(1000)).join('&')}`)
  t.is(parameters.body.meta.errors?.length, 100)
})

test('bodies: unknown field names are cut to 100 whole code points', async t => {
  const id = await createUser()
  const rows: [name: string, shown: string][] = [
    ['😀'.repeat(100), '😀'.repeat(100)],
    ['😀'.repeat(101), `${'😀'.repeat(100)}…`],
    [`a${'😀'.repeat(50_000)}`, `a${'😀'.repeat(99)}…`],
    ['a'.repeat(100_000), `${'a'.repeat(100)}…`],
  ]
  for (const [name, shown] of rows)
    for (const [path, body] of [
      ['/v1/users', { [name]: 0, first_name: 'a', last_name: 'b' }],
      ['/v1/users', { [name]: 0, users: [{}] }],
      [`/v1/users/${id}/groups`, { [name]: 0, id: 1 }],
    ] as const) {
      const { meta } = (await api.post(path, body)).body
      t.deepEqual(
        meta.errors?.map(({ field }) => field),
        [shown],
      )
      t.true(meta.message?.includes(shown))
      t.true((meta.message?.length ?? 0) < 400)
    }
})

test('bodies: POST, PUT and PATCH reject JSON that is not an object with invalid_body', async t => {
  const id = await createUser()
  for (const text of ['[]', '"a"', '1', 'true', 'null', '[{"first_name":"a","last_name":"b"}]']) {
    expectError(t, await api.post('/v1/users', text), 400, 'invalid_body')
    expectError(t, await api.put(`/v1/users/${id}`, text), 400, 'invalid_body')
    expectError(t, await api.patch(`/v1/users/${id}`, text), 400, 'invalid_body')
  }
})

test('bodies: __proto__ is an unknown field', async t => {
  const text = `{"first_name":"a","last_name":"${unique()}","__proto__":{"first_name":"b"}}`
  expectError(t, await api.post('/v1/users', text), 400, 'unknown_field')
})

test('bodies: the last of several equal keys is used', async t => {
  const last = unique()
  const answer = await api.post('/v1/users', `{"first_name":"a","first_name":"b","last_name":"${last}"}`)
  expectOk(t, answer)
  t.is(answer.body.first_name, 'b')
})

test('bodies: the fault of groups names the membership endpoint', async t => {
  const id = await createUser()
  const body = { first_name: 'Ada', last_name: unique(), groups: [{ id: 1 }] }
  const answers = [
    await api.post('/v1/users', body),
    await api.put(`/v1/users/${id}`, body),
    await api.patch(`/v1/users/${id}`, { groups: [] }),
  ]
  for (const answer of answers) {
    expectError(t, answer, 400, 'invalid_field')
    expectFaults(t, answer, { groups: 'invalid_field' })
    t.regex(answer.body.meta.errors?.[0]?.message ?? '', /\/v1\/users\/\S+\/groups/)
  }
})

test('bodies: meta is ignored, so a user can be sent back as it was read', async t => {
  const id = await createUser()
  const { body } = await api.get(`/v1/users/${id}`)
  for (const answer of [await api.put(`/v1/users/${id}`, body), await api.patch(`/v1/users/${id}`, body)]) {
    expectOk(t, answer)
    t.deepEqual({ ...answer.body, meta: body.meta }, body)
  }
  for (const meta of ['junk', null, 5, { status: 'x', groups: [] }])
    expectOk(t, await api.post('/v1/users', { first_name: 'Ada', last_name: unique(), meta }))
})

test('bodies: PUT and PATCH reject invalid fields and store nothing', async t => {
  const id = await createUser()
  const before = (await api.get(`/v1/users/${id}`)).body
  const rows: [body: object, faults: Record<string, string>][] = [
    [{ first_name: 'x', last_name: 5 }, { last_name: 'invalid_field' }],
    [{ first_name: 'x', last_name: '' }, { last_name: 'invalid_field' }],
    [
      { first_name: ' ', nick: 1 },
      { first_name: 'invalid_field', nick: 'unknown_field' },
    ],
    [{ first_name: 'x', id: id + 1 }, { id: 'id_mismatch' }],
    [
      { first_name: '', id: id + 1 },
      { first_name: 'invalid_field', id: 'id_mismatch' },
    ],
  ]
  for (const [body, faults] of rows)
    for (const method of ['put', 'patch'] as const) {
      const answer = await api[method](`/v1/users/${id}`, body)
      expectError(t, answer, 400, ...Object.values(faults))
      expectFaults(t, answer, faults)
    }
  for (const method of ['put', 'patch'] as const) {
    for (const wrong of [String(id), [id], true, {}])
      expectFaults(t, await api[method](`/v1/users/${id}`, { id: wrong }), { id: 'invalid_field' })
    for (const other of ['0', '-1', '-0', `${id}.5`, '9007199254740993', '1e999'])
      expectFaults(t, await api[method](`/v1/users/${id}`, `{"id":${other}}`), { id: 'id_mismatch' })
  }
  expectFaults(t, await api.patch(`/v1/users/${id}`, { id: null }), { id: 'invalid_field' })
  const after = (await api.get(`/v1/users/${id}`)).body
  t.deepEqual({ ...after, meta: before.meta }, before)
})
