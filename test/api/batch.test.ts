// Batches of users: the response has one entry for each input, in the same order, with its own status.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectNoSideEffects, expectOk } from '../support/expect.ts'
import { newPerson } from '../support/records.ts'

const { service, api, close } = await openApi()
test.after.always(close)

const countUsers = () => api.count('/v1/users')

test.serial('batch: each input has its entry, in order, and created users can be read', async t => {
  const people = [newPerson(), newPerson(), newPerson()]
  const before = await countUsers()
  const answer = await api.post('/v1/users', { users: people })
  expectOk(t, answer)
  const { users = [], meta, ...rest } = answer.body
  t.deepEqual(rest, {})
  t.deepEqual(
    users.map(({ id, meta, ...fields }) => fields),
    people,
  )
  t.is(new Set(users.map(({ id }) => id)).size, people.length)
  for (const user of users) {
    t.is(user.meta.status, 200)
    const read = await api.get(`/v1/users/${user.id}`)
    t.deepEqual({ ...read.body, meta: user.meta }, user)
  }
  t.is(meta.created, 3)
  t.is(meta.failed, 0)
  t.truthy(meta.message)
  t.is(await countUsers(), before + people.length)
})

const entries: [title: string, entry: unknown, fields: object, ...codes: string[]][] = [
  ['last_name missing', { first_name: 'a' }, { first_name: 'a' }, 'missing_field'],
  ['null counts as missing', { first_name: 'a', last_name: null }, { first_name: 'a' }, 'missing_field'],
  ['both fields missing', {}, {}, 'missing_field'],
  ['first_name is a number', { first_name: 5, last_name: 'b' }, { last_name: 'b' }, 'invalid_field'],
  ['first_name is empty', { first_name: '', last_name: 'b' }, { last_name: 'b' }, 'invalid_field'],
  ['a control character', { first_name: 'a', last_name: 'b\u0007' }, { first_name: 'a' }, 'invalid_field'],
  [
    'last_name has 256 characters',
    { first_name: 'a', last_name: 'b'.repeat(256) },
    { first_name: 'a' },
    'invalid_field',
    'limit_exceeded',
  ],
  [
    'id set',
    { id: 1, first_name: 'a', last_name: 'b' },
    { first_name: 'a', last_name: 'b' },
    'invalid_field',
  ],
  [
    'groups set',
    { first_name: 'a', last_name: 'b', groups: [] },
    { first_name: 'a', last_name: 'b' },
    'invalid_field',
  ],
  [
    'an unknown field',
    { first_name: 'a', last_name: 'b', age: 1 },
    { first_name: 'a', last_name: 'b' },
    'unknown_field',
  ],
  ['a nested batch', { users: [{ first_name: 'a', last_name: 'b' }] }, {}, 'unknown_field', 'missing_field'],
  ...[null, 5, 'x', true, [], [{ first_name: 'a', last_name: 'b' }]].map(
    (entry): [string, unknown, object, ...string[]] => [
      `not an object: ${JSON.stringify(entry)}`,
      entry,
      {},
      'invalid_body',
      'invalid_batch',
      'invalid_field',
    ],
  ),
]
test.serial('batch: an invalid entry has a message, a code and its valid fields, but no id', async t => {
  const good = [newPerson(), newPerson()]
  const before = await countUsers()
  const [first, last] = good
  const answer = await api.post('/v1/users', { users: [first, ...entries.map(([, entry]) => entry), last] })
  expectOk(t, answer)
  const { users = [], meta } = answer.body
  t.is(users.length, entries.length + 2)
  t.is(users[0]?.meta.status, 200)
  t.is(users.at(-1)?.meta.status, 200)
  for (const [index, [title, , fields, ...codes]] of entries.entries()) {
    const { meta, ...rest } = users[index + 1] ?? { meta: { status: 0 } }
    t.deepEqual(rest, fields, title)
    t.is(meta.status, 400, title)
    t.truthy(meta.message, title)
    t.true(codes.includes(meta.code ?? ''), `${title}: ${meta.code}`)
  }
  t.is(meta.created, 2)
  t.is(meta.failed, entries.length)
  t.is(await countUsers(), before + 2)
})

test.serial('batch: each entry lists at most 10 faults and counts the rest', async t => {
  const unknownFields = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, 0]))
  const entries = [
    { ...newPerson(), ...unknownFields(10) },
    ...Array.from({ length: 999 }, () => ({ ...newPerson(), ...unknownFields(90) })),
  ]
  const answer = await api.post('/v1/users', { users: entries })
  expectOk(t, answer)
  const [few, ...many] = answer.body.users ?? []
  t.is(few?.meta.errors?.length, 10)
  t.notRegex(few?.meta.message ?? '', / more$/)
  for (const { meta } of many) {
    t.deepEqual(meta.errors, few?.meta.errors)
    t.is(meta.message, `${few?.meta.message}; and 80 more`)
  }
  const group = await api.create('/v1/groups', { name: 'Many' })
  const id = await api.create('/v1/users', newPerson())
  const members = await api.post(`/v1/users/${id}/groups`, { groups: [{ id: group, ...unknownFields(90) }] })
  t.is(members.body.groups?.[0]?.meta.errors?.length, 10)
})

test.serial('batch: the status is 200 even if every entry fails', async t => {
  const before = await countUsers()
  const answer = await api.post('/v1/users', { users: [{}, null, { first_name: 'a' }] })
  expectOk(t, answer)
  t.is(answer.body.meta.created, 0)
  t.is(answer.body.meta.failed, 3)
  t.is(await countUsers(), before)
})

test.serial('batch: only the first of several equal entries is created, and existing users fail', async t => {
  const [existing, twice, once] = [newPerson(), newPerson(), newPerson()]
  await api.create('/v1/users', existing)
  const answer = await api.post('/v1/users', { users: [twice, existing, twice, once, twice, existing] })
  expectOk(t, answer)
  const { users = [], meta } = answer.body
  t.deepEqual(
    users.map(user => user.meta.code ?? user.meta.status),
    [200, 'user_exists', 'user_exists', 200, 'user_exists', 'user_exists'],
  )
  for (const [index, user] of users.entries()) {
    t.is(typeof user.id, [0, 3].includes(index) ? 'number' : 'undefined')
    t.true(user.meta.status === 200 || (user.meta.status === 400 && user.meta.message !== undefined))
    t.is(user.last_name, [twice, existing, twice, once, twice, existing][index]?.last_name)
  }
  t.is(meta.created, 2)
  t.is(meta.failed, 4)
})

test.serial('batch: an invalid entry does not reserve its names for later entries', async t => {
  const wanted = newPerson()
  const answer = await api.post('/v1/users', { users: [{ ...wanted, age: 1 }, wanted] })
  t.deepEqual(
    answer.body.users?.map(({ meta }) => meta.status),
    [400, 200],
  )
})

test.serial('batch: names that differ in case, accents or trailing spaces are not duplicates', async t => {
  const { first_name, last_name } = newPerson()
  const names = [last_name, last_name.toUpperCase(), last_name.replace('o', 'ó'), `${last_name} `]
  const answer = await api.post('/v1/users', { users: names.map(name => ({ first_name, last_name: name })) })
  t.is(answer.body.meta.created, names.length, answer.text)
})

test.serial('batch: meta is ignored at the top level and in entries', async t => {
  const users = [
    { ...newPerson(), meta: { status: 400 } },
    { ...newPerson(), meta: 'junk' },
  ]
  const answer = await api.post('/v1/users', { users, meta: { anything: true } })
  expectOk(t, answer)
  t.is(answer.body.meta.created, 2)
})

test.serial('batch: a malformed batch is rejected as a whole and stores nothing', async t => {
  const entry = newPerson()
  const rows: [body: object, ...codes: string[]][] = [
    [{ users: [] }, 'invalid_batch'],
    [{ users: {} }, 'invalid_batch'],
    [{ users: null }, 'invalid_batch'],
    [{ users: 'x' }, 'invalid_batch'],
    [{ users: 0 }, 'invalid_batch'],
    [{ users: [entry], first_name: 'a' }, 'invalid_batch', 'unknown_field'],
    [{ users: [entry], ...newPerson() }, 'invalid_batch', 'unknown_field'],
    [{ users: [entry], groups: [] }, 'invalid_batch', 'unknown_field', 'invalid_field'],
    [{ users: [entry], x: null }, 'invalid_batch', 'unknown_field'],
    [{ users: Array.from({ length: 1001 }, newPerson) }, 'limit_exceeded'],
  ]
  await expectNoSideEffects(t, service, countUsers, async () => {
    for (const [body, ...codes] of rows) expectError(t, await api.post('/v1/users', body), 400, ...codes)
  })
})

test.serial('batch: 1000 entries are accepted', async t => {
  const before = await countUsers()
  const answer = await api.post('/v1/users', { users: Array.from({ length: 1000 }, newPerson) })
  expectOk(t, answer)
  t.is(answer.body.meta.created, 1000)
  t.is(answer.body.users?.length, 1000)
  t.is(await countUsers(), before + 1000)
})

test.serial('batch: PUT and PATCH reject batches', async t => {
  const id = await api.create('/v1/users', newPerson())
  for (const method of ['put', 'patch'] as const)
    expectError(
      t,
      await api[method](`/v1/users/${id}`, { users: [newPerson()] }),
      400,
      'unknown_field',
      'missing_field',
    )
})
