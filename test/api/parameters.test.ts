// Rejected query parameters: unknown names, invalid values, repetitions and exceeded limits. Messages name
// what is allowed.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'

const { api, close } = await openApi()
const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
test.after.always(close)

const allParameters = [
  'first_name',
  'last_name',
  'groups',
  'sort',
  'include',
  'start_index',
  'records_per_page',
]
const rejected: [query: string, code: string, ...mentioned: string[]][] = [
  ['colour=x', 'unknown_parameter', ...allParameters],
  ['First_name=x', 'unknown_parameter', ...allParameters],
  ['first_name[like]=x', 'unknown_parameter'],
  ['first_name[gt]=x', 'unknown_parameter'],
  ['first_name[]=x', 'unknown_parameter'],
  ['id[prefix]=1', 'unknown_parameter'],
  ['id[exists]=true', 'unknown_parameter'],
  ['groups.name=x', 'unknown_parameter'],
  ['groups[0].name=x', 'unknown_parameter'],
  ['groups[*].colour=x', 'unknown_parameter'],
  ['users[*].first_name=x', 'unknown_parameter'],
  ['groups=x', 'unknown_parameter'],
  ['meta=x', 'unknown_parameter'],
  ['__proto__=x', 'unknown_parameter'],
  ['__proto__[in]=x', 'unknown_parameter'],
  ['constructor=x', 'unknown_parameter'],
  ['include=friends', 'invalid_parameter', 'groups'],
  ['include=Groups', 'invalid_parameter', 'groups'],
  ['include=groups&include=groups', 'invalid_parameter'],
  ['include=groups,groups', 'invalid_parameter'],
  ['sort=colour', 'invalid_parameter', 'first_name', 'last_name', 'id'],
  ['sort=', 'invalid_parameter'],
  ['sort=--id', 'invalid_parameter'],
  ['sort=first_name,', 'invalid_parameter'],
  ['sort=groups[*].name', 'invalid_parameter'],
  ['sort=id&sort=id', 'invalid_parameter'],
  ['sort=id,-id', 'invalid_parameter'],
  ['start_index=1&start_index=1', 'invalid_parameter'],
  ['records_per_page=1&records_per_page=1', 'invalid_parameter'],
  ['start_index=', 'invalid_parameter'],
  ['start_index=-1', 'invalid_parameter'],
  ['start_index=abc', 'invalid_parameter'],
  ['start_index=1.5', 'invalid_parameter'],
  ['start_index=1e1', 'invalid_parameter'],
  ['start_index=9007199254740992', 'invalid_parameter'],
  ['records_per_page=', 'invalid_parameter'],
  ['records_per_page=0', 'invalid_parameter'],
  ['records_per_page=-1', 'invalid_parameter'],
  ['records_per_page=ten', 'invalid_parameter'],
  ['records_per_page=1001', 'limit_exceeded', '1000'],
  ['id=', 'invalid_parameter'],
  ['id=abc', 'invalid_parameter'],
  ['id=007', 'invalid_parameter'],
  ['id=!abc', 'invalid_parameter'],
  ['id=1.0', 'invalid_parameter'],
  ['id=-1', 'invalid_parameter'],
  ['id=9007199254740992', 'invalid_parameter', 'from 1 to 9007199254740991'],
  ['id[gt]=abc', 'invalid_parameter', 'from 0 to 9007199254740991'],
  ['id[gt]=!1', 'invalid_parameter'],
  ['id[gt]=00', 'invalid_parameter'],
  ['id[lt]=', 'invalid_parameter', 'from 0 to 9007199254740991'],
  ['id[in]=', 'invalid_parameter'],
  ['id[in]=1,,2', 'invalid_parameter'],
  ['id[in]=1,x', 'invalid_parameter'],
  ['id[in]=1&id[in]=x', 'invalid_parameter'],
  ['id[in]=1&id[in]=', 'invalid_parameter'],
  ['groups[*].id=abc', 'invalid_parameter'],
  ['groups[*].id=', 'invalid_parameter'],
  ['first_name[exists]=maybe', 'invalid_parameter', 'true', 'false'],
  ['first_name[exists]=', 'invalid_parameter'],
  ['first_name[prefix]=', 'invalid_parameter'],
  ['first_name[in]=', 'invalid_parameter'],
  ['first_name[in]=a&first_name[in]=', 'invalid_parameter'],
]
for (const [query, code, ...mentioned] of rejected)
  test(`parameters: GET /v1/users?${query} is ${code}`, async t => {
    const answer = await api.get(`/v1/users?${query}`)
    expectError(t, answer, 400, code)
    for (const text of mentioned) t.true(answer.text.includes(text), `${text} in ${answer.text}`)
  })

test('parameters: a long value is shortened in the message', async t => {
  const answer = await api.get(`/v1/users?include=${'x'.repeat(5000)}`)
  expectError(t, answer, 400, 'invalid_parameter')
  const shown = answer.text.match(/x+…?/g) ?? []
  t.deepEqual(new Set(shown.filter(text => text.length > 10)), new Set([`${'x'.repeat(100)}…`]))
})

test('parameters: several faults are reported at once', async t => {
  const answer = await api.get('/v1/users?id=abc&colour=x&records_per_page=1001')
  expectError(t, answer, 400, 'invalid_parameter', 'unknown_parameter', 'limit_exceeded')
  expectFaults(t, answer, {
    id: 'invalid_parameter',
    colour: 'unknown_parameter',
    records_per_page: 'limit_exceeded',
  })
  const undecodable = await api.get('/v1/users?first_name=%ff&id=abc&%C0=x&colour=x')
  expectFaults(t, undecodable, {
    'first_name=%ff': 'invalid_parameter',
    '%C0=x': 'invalid_parameter',
    colour: 'unknown_parameter',
    id: 'invalid_parameter',
  })
})

test('parameters: 20 filters are accepted, 21 are limit_exceeded', async t => {
  const filters = (count: number) =>
    Array.from({ length: count }, (_, index) => `last_name=!unused${index}`).join('&')
  const paging = '&sort=id&start_index=0&records_per_page=100&include=groups'
  const answer = await api.get(`/v1/users?${filters(20)}${paging}`)
  expectOk(t, answer)
  t.is(answer.body.meta.total_records, 1)
  const over = await api.get(`/v1/users?${filters(20)}&groups[*].name=x&first_name=x`)
  expectError(t, over, 400, 'limit_exceeded')
  expectFaults(t, over, { 'groups[*].name': 'limit_exceeded' })
  const faulty = await api.get(`/v1/users?${filters(20)}&first_name=x&id=abc&last_name=y`)
  expectFaults(t, faulty, { first_name: 'limit_exceeded', id: 'invalid_parameter' })
})

test('parameters: a single resource rejects the parameters of collections', async t => {
  for (const query of [
    'sort=id',
    'start_index=0',
    'records_per_page=1',
    'first_name=Ada',
    'id=1',
    'groups[*].name=x',
  ])
    expectError(t, await api.get(`/v1/users/${user}?${query}`), 400, 'unknown_parameter')
  expectError(t, await api.get(`/v1/users/${user}?include=friends`), 400, 'invalid_parameter')
  expectError(t, await api.get(`/v1/users/${user}?include=groups&include=groups`), 400, 'invalid_parameter')
})

test('parameters: OPTIONS accepts exactly the parameter names of the methods of the path', async t => {
  const options = (path: string) => api.send('OPTIONS', path)
  for (const path of [
    '/v1/users?groups%5B*%5D.name[prefix]=x&sort=y&include=groups&start_index=z&first_name=a&first_name=b',
    `/v1/users/${user}?include=groups`,
    `/v1/users/${user}/groups?records_per_page=1`,
  ])
    t.is((await options(path)).status, 204, path)
  for (const path of [
    '/v1/users?zz=1',
    `/v1/users/${user}?sort=id`,
    `/v1/users/${user}/groups?include=users`,
    `/v1/users/${user}/groups/1?start_index=0`,
    '/v1/groups?x=1',
    '/v1/openapi.json?include=groups',
    '/v1/docs/page.js?x',
  ])
    expectError(t, await options(path), 400, 'unknown_parameter')
  const answer = await options(`/v1/users/${user}?zz=1&include=groups&y`)
  expectFaults(t, answer, { zz: 'unknown_parameter', y: 'unknown_parameter' })
  t.regex(answer.text, /unknown parameter \\"zz\\"; allowed: include\b/)
})

test('parameters: every method rejects unknown parameters before it checks the body and the resource', async t => {
  const group = await api.create('/v1/groups', { name: 'Math' })
  const unknown = Number.MAX_SAFE_INTEGER
  const answers = [
    await api.post('/v1/users?x=1', { first_name: 'a', last_name: 'b' }),
    await api.post('/v1/users?x=1', '{'),
    await api.post('/v1/users?x=1', { users: [] }),
    await api.post('/v1/groups?x=1', { name: 'a' }),
    await api.post(`/v1/users/${user}/groups?x=1`, { id: group }),
    await api.get(`/v1/users/${user}?x=1`),
    await api.get(`/v1/users/${unknown}?x=1`),
    await api.put(`/v1/users/${user}?x=1`, {}),
    await api.patch(`/v1/users/${user}?x=1`, {}),
    await api.patch(`/v1/users/${unknown}?x=1`, { age: 1 }),
    await api.delete(`/v1/users/${user}?x=1`),
    await api.delete(`/v1/users/${unknown}?x=1`),
    await api.delete(`/v1/users/${user}/groups/${group}?x=1`),
    await api.get(`/v1/groups/${group}?x=1`),
    await api.delete(`/v1/groups/${group}?x=1`),
  ]
  for (const answer of answers) expectError(t, answer, 400, 'unknown_parameter')
  t.is((await api.send('HEAD', '/v1/users?x=1')).status, 400)
  t.is((await api.get(`/v1/users/${user}`)).body.first_name, 'Ada')
  t.is(await api.count('/v1/users'), 1)
})
