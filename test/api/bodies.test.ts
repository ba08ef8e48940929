// What a user's body may hold, and every fault that is found in one.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'

const { api, close } = await openApi()
test.after.always(close)

let made = 0
/** A last name that no other test of this file uses. */
const unique = () => `Nobody ${++made}`
const createUser = (last_name = unique()) => api.create('/v1/users', { first_name: 'Ada', last_name })

const faultyBodies: [title: string, body: object, faults: Record<string, string>][] = [
  ['last_name missing', { first_name: 'a' }, { last_name: 'missing_field' }],
  ['first_name missing', { last_name: 'a' }, { first_name: 'missing_field' }],
  ['both missing', {}, { first_name: 'missing_field', last_name: 'missing_field' }],
  ['null is missing', { first_name: null, last_name: 'a' }, { first_name: 'missing_field' }],
  ['a number', { first_name: 1, last_name: 'a' }, { first_name: 'invalid_field' }],
  ['a boolean', { first_name: false, last_name: 'a' }, { first_name: 'invalid_field' }],
  ['an array', { first_name: ['a'], last_name: 'a' }, { first_name: 'invalid_field' }],
  ['an object', { first_name: { a: 1 }, last_name: 'a' }, { first_name: 'invalid_field' }],
  ['empty', { first_name: '', last_name: 'a' }, { first_name: 'invalid_field' }],
  ['only white space', { first_name: ' \u3000', last_name: 'a' }, { first_name: 'invalid_field' }],
  ['a control character', { first_name: 'a\tb', last_name: 'a' }, { first_name: 'invalid_field' }],
  ['id', { id: 1, first_name: 'a', last_name: 'b' }, { id: 'invalid_field' }],
  ['groups', { first_name: 'a', last_name: 'b', groups: [] }, { groups: 'invalid_field' }],
  ['an unknown field', { first_name: 'a', last_name: 'b', age: 1 }, { age: 'unknown_field' }],
  [
    'a field in another case',
    { first_name: 'a', Last_name: 'b' },
    { last_name: 'missing_field', Last_name: 'unknown_field' },
  ],
  [
    'names of Object.prototype',
    { first_name: 'a', last_name: 'b', toString: 1, constructor: 2 },
    { toString: 'unknown_field', constructor: 'unknown_field' },
  ],
  [
    'all faults at once',
    { id: 7, first_name: '', nick: 'x' },
    { id: 'invalid_field', first_name: 'invalid_field', last_name: 'missing_field', nick: 'unknown_field' },
  ],
]
for (const [title, body, faults] of faultyBodies)
  test(`POST refuses: ${title}`, async t => {
    const answer = await api.post('/v1/users', body)
    expectError(t, answer, 400, ...Object.values(faults))
    expectFaults(t, answer, faults)
  })

test('POST refuses names of 256 code points', async t => {
  const answer = await api.post('/v1/users', { first_name: 'a'.repeat(256), last_name: unique() })
  expectError(t, answer, 400, 'invalid_field', 'limit_exceeded')
  t.deepEqual(
    answer.body.meta.errors?.map(fault => fault.field),
    ['first_name'],
  )
})

/** A body with so many fields that are none. */
const wrong = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, 0]))

test('100 faults are listed, more are counted', async t => {
  const id = await createUser()
  const { meta } = (await api.patch(`/v1/users/${id}`, wrong(100))).body
  t.is(meta.errors?.length, 100)
  t.notRegex(meta.message ?? '', / more$/)
  const answer = await api.patch(`/v1/users/${id}`, wrong(60_000))
  expectError(t, answer, 400, 'unknown_field')
  t.deepEqual(answer.body.meta.errors, meta.errors)
  t.is(answer.body.meta.message, `${meta.message}; and 59900 more`)
  const groups = await api.post(`/v1/users/${id}/groups`, wrong(60_000))
  t.is(groups.body.meta.errors?.length, 100)
  const parameters = await api.get(`/v1/users?${Object.keys(wrong(1000)).join('&')}`)
  t.is(parameters.body.meta.errors?.length, 100)
})

test('what is no field is named by 100 code points, and none of them in halves', async t => {
  const id = await createUser()
  const rows: [name: string, as: string][] = [
    ['😀'.repeat(100), '😀'.repeat(100)],
    ['😀'.repeat(101), `${'😀'.repeat(100)}…`],
    [`a${'😀'.repeat(50_000)}`, `a${'😀'.repeat(99)}…`],
    ['a'.repeat(100_000), `${'a'.repeat(100)}…`],
  ]
  for (const [name, as] of rows)
    for (const [path, body] of [
      ['/v1/users', { [name]: 0, first_name: 'a', last_name: 'b' }],
      ['/v1/users', { [name]: 0, users: [{}] }],
      [`/v1/users/${id}/groups`, { [name]: 0, id: 1 }],
    ] as const) {
      const { meta } = (await api.post(path, body)).body
      t.deepEqual(
        meta.errors?.map(({ field }) => field),
        [as],
      )
      t.true(meta.message?.includes(as))
      t.true((meta.message?.length ?? 0) < 400)
    }
})

test('a body that is no object is invalid_body, whatever the method', async t => {
  const id = await createUser()
  for (const text of ['[]', '"a"', '1', 'true', 'null', '[{"first_name":"a","last_name":"b"}]']) {
    expectError(t, await api.post('/v1/users', text), 400, 'invalid_body')
    expectError(t, await api.put(`/v1/users/${id}`, text), 400, 'invalid_body')
    expectError(t, await api.patch(`/v1/users/${id}`, text), 400, 'invalid_body')
  }
})

test('__proto__ is an unknown field like any other', async t => {
  const text = `{"first_name":"a","last_name":"${unique()}","__proto__":{"first_name":"b"}}`
  expectError(t, await api.post('/v1/users', text), 400, 'unknown_field')
})

test('of duplicate keys the last wins', async t => {
  const last = unique()
  const answer = await api.post('/v1/users', `{"first_name":"a","first_name":"b","last_name":"${last}"}`)
  expectOk(t, answer)
  t.is(answer.body.first_name, 'b')
})

test('groups in a body: the fault names the membership endpoint', async t => {
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

test('meta is ignored: what was read can be sent back', async t => {
  const id = await createUser()
  const { body } = await api.get(`/v1/users/${id}`)
  for (const answer of [await api.put(`/v1/users/${id}`, body), await api.patch(`/v1/users/${id}`, body)]) {
    expectOk(t, answer)
    t.deepEqual({ ...answer.body, meta: body.meta }, body)
  }
  for (const meta of ['junk', null, 5, { status: 'x', groups: [] }])
    expectOk(t, await api.post('/v1/users', { first_name: 'Ada', last_name: unique(), meta }))
})

test('PUT and PATCH refuse faulty fields, and store nothing of them', async t => {
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
