// Single users: create, read, replace, update and delete.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'

const { api, close } = await openApi()
test.after.always(close)

let sequence = 0
/** Returns a last name that no other test of this file uses. */
const unique = () => `Lovelace ${++sequence}`
const createUser = (last_name = unique()) => api.create('/v1/users', { first_name: 'Ada', last_name })

test('users: POST returns the created user and its Location, and GET returns the same user', async t => {
  const fields = { first_name: 'Ada', last_name: unique() }
  const created = await api.post('/v1/users', fields)
  expectOk(t, created)
  const { id, meta, ...rest } = created.body
  t.true(Number.isSafeInteger(id) && Number(id) > 0)
  t.deepEqual(rest, fields)
  const location = new URL(created.headers.location ?? '', api.url)
  t.is(location.pathname, `/v1/users/${id}`)
  const read = await api.get(location.pathname)
  expectOk(t, read)
  t.deepEqual({ ...read.body, meta }, created.body)
})

test('users: names of up to 255 code points are stored exactly as sent', async t => {
  for (const first_name of [
    'x',
    ' padded ',
    'a'.repeat(255),
    'é'.repeat(255),
    'O\'Brien\\"`',
    '<b>%_</b>',
    'null',
  ])
    for (const last_name of [unique(), `${unique()} `]) {
      const id = await api.create('/v1/users', { first_name, last_name })
      const { body } = await api.get(`/v1/users/${id}`)
      t.is(body.first_name, first_name)
      t.is(body.last_name, last_name)
    }
})

const writes: [title: string, method: 'put' | 'patch', body: object, expected: object][] = [
  [
    'PUT of all fields',
    'put',
    { first_name: 'B', last_name: 'put all' },
    { first_name: 'B', last_name: 'put all' },
  ],
  ['PUT removes missing fields', 'put', { first_name: 'B' }, { first_name: 'B' }],
  ['PUT null removes', 'put', { first_name: null, last_name: 'C' }, { last_name: 'C' }],
  ['PUT {} removes both', 'put', {}, {}],
  ['PATCH of one field', 'patch', { last_name: 'patched' }, { first_name: 'Grace', last_name: 'patched' }],
  ['PATCH null removes', 'patch', { first_name: null }, { last_name: 'Hopper' }],
  ['PATCH null removes both', 'patch', { first_name: null, last_name: null }, {}],
  ['PATCH {} changes nothing', 'patch', {}, { first_name: 'Grace', last_name: 'Hopper' }],
  ['PATCH of the same value', 'patch', { first_name: 'Grace' }, { first_name: 'Grace', last_name: 'Hopper' }],
]
test.serial(
  'users: PUT and PATCH return and store the new fields, with and without id in the body',
  async t => {
    for (const [title, method, body, expected] of writes)
      for (const withId of [false, true]) {
        const id = await api.create('/v1/users', { first_name: 'Grace', last_name: 'Hopper' })
        const answer = await api[method](`/v1/users/${id}`, withId ? { ...body, id } : body)
        expectOk(t, answer)
        for (const { body } of [answer, await api.get(`/v1/users/${id}`)]) {
          const { meta, ...user } = body
          t.deepEqual(user, { id, ...expected }, title)
        }
        await api.delete(`/v1/users/${id}`)
      }
  },
)

test('users: POST, PUT and PATCH reject a pair of names that exists', async t => {
  const [pair, other] = [
    { first_name: 'Ada', last_name: unique() },
    { first_name: 'Ada', last_name: unique() },
  ]
  const id = await api.create('/v1/users', pair)
  const second = await api.create('/v1/users', other)
  const answers = [
    await api.post('/v1/users', pair),
    await api.put(`/v1/users/${second}`, pair),
    await api.patch(`/v1/users/${second}`, { last_name: pair.last_name }),
  ]
  for (const answer of answers) {
    expectError(t, answer, 409, 'user_exists')
    t.regex(answer.body.meta.message ?? '', /exists/)
  }
  expectOk(t, await api.put(`/v1/users/${id}`, pair))
  const { body } = await api.get(`/v1/users/${second}`)
  t.is(body.last_name, other.last_name)
})

test('users: a pair with a missing name never conflicts', async t => {
  const ids = [await createUser(), await createUser()]
  for (const fields of [{ first_name: 'Lone' }, { last_name: 'Lone' }, {}])
    for (const id of ids) expectOk(t, await api.put(`/v1/users/${id}`, fields))
})

test('users: a pair can be used again after DELETE and after an update', async t => {
  const pair = { first_name: 'Ada', last_name: unique() }
  const id = await api.create('/v1/users', pair)
  expectOk(t, await api.delete(`/v1/users/${id}`))
  const second = await api.create('/v1/users', pair)
  t.not(second, id)
  expectOk(t, await api.patch(`/v1/users/${second}`, { first_name: 'Eve' }))
  expectOk(t, await api.post('/v1/users', pair))
})

test('users: DELETE returns only meta, and the user is not found afterwards', async t => {
  const id = await createUser()
  const answer = await api.delete(`/v1/users/${id}`)
  expectOk(t, answer)
  t.deepEqual(Object.keys(answer.body), ['meta'])
  t.truthy(answer.body.meta.message)
  expectError(t, await api.get(`/v1/users/${id}`), 404, 'user_not_found')
  expectError(t, await api.delete(`/v1/users/${id}`), 404, 'user_not_found')
})

test('users: an unknown id is user_not_found, and PUT does not create the user', async t => {
  const id = await createUser()
  await api.delete(`/v1/users/${id}`)
  for (const unknown of [id, id + 100_000, Number.MAX_SAFE_INTEGER]) {
    const path = `/v1/users/${unknown}`
    expectError(
      t,
      await api.put(path, { first_name: 'a', last_name: 'b', id: unknown }),
      404,
      'user_not_found',
    )
    expectError(t, await api.patch(path, {}), 404, 'user_not_found')
    expectError(t, await api.patch(path, { first_name: 'a' }), 404, 'user_not_found')
    expectError(t, await api.delete(path), 404, 'user_not_found')
    expectError(t, await api.get(path), 404, 'user_not_found')
    expectError(t, await api.get(`${path}?include=groups`), 404, 'user_not_found')
    expectError(t, await api.get(`${path}/groups`), 404, 'user_not_found')
  }
})

test('users: an invalid id is 404 for every method', async t => {
  await createUser()
  const wrong = [
    '0',
    '01',
    '-1',
    '+1',
    '1.0',
    '1e0',
    'abc',
    '0x1',
    '9007199254740992',
    '9'.repeat(30),
    '1%20',
    '%D9%A1',
  ]
  for (const id of wrong) {
    const path = `/v1/users/${id}`
    const answers = [
      await api.get(path),
      await api.put(path, {}),
      await api.patch(path, {}),
      await api.delete(path),
    ]
    for (const answer of answers) expectError(t, answer, 404, 'user_not_found', 'route_not_found')
  }
})
