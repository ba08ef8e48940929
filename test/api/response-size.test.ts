// limits.responseBytes: a page that would be larger is limit_exceeded and says what to lower; no response is cut. The
// service also accepts the longest URL that the settings allow.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'
import { until } from '../support/until.ts'

// The smallest limit that the settings allow beside these.
const responseBytes = 6 * 2000 + 4096 * 10
const { api, close } = await openApi({
  config: { limits: { bodyBytes: 2000, batchEntries: 10, responseBytes, urlBytes: 2 ** 16 } },
})
test.after.always(close)

const path = (size: number, include = '&include=groups') =>
  `/v1/users?first_name=Large&records_per_page=${size}${include}`

/** 20 users, each in 10 groups whose names have 255 code points of three bytes: some 8 KiB each. */
test.before(async () => {
  const groups: { id: number }[] = []
  for (let group = 10; group < 20; group++)
    groups.push({ id: await api.create('/v1/groups', { name: `${group}`.padEnd(255, '€') }) })
  for (let user = 0; user < 20; user++) {
    const id = await api.create('/v1/users', { first_name: 'Large', last_name: `${user}` })
    await api.post(`/v1/users/${id}/groups`, { groups })
  }
})

test('response size: a page over the limit is limit_exceeded, the pages below it are complete', async t => {
  for (const round of ['from the database', 'from the cache']) {
    let largest = 0
    for (let size = 1; size <= 20; size++) {
      const answer = await api.get(path(size))
      if (answer.status === 200) {
        t.is(size, largest + 1, round)
        largest = size
        t.true(Buffer.byteLength(answer.text) <= responseBytes)
        t.deepEqual(
          answer.body.users?.map(user => user.groups?.map(({ name }) => name?.length)),
          Array(size).fill(Array(10).fill(255)),
        )
        continue
      }
      expectError(t, answer, 400, 'limit_exceeded')
      expectFaults(t, answer, { records_per_page: 'limit_exceeded' })
      t.regex(
        answer.body.meta.message ?? '',
        new RegExp(`${responseBytes} bytes: lower it, or leave out include`),
      )
    }
    t.is(largest, 6, round)
  }
  expectOk(t, await api.get(path(20, '')))
})

test('response size: the limit applies to pages without include, too, and is inclusive', async t => {
  for (let user = 0; user < 70; user++)
    await api.create('/v1/users', { first_name: 'Long', last_name: `${user}`.padEnd(255, '€') })
  /** @param others characters that the link to the next page repeats */
  const page = (size: number, others = 1) =>
    api.get(`/v1/users?first_name=Long&last_name=!${'x'.repeat(others)}&records_per_page=${size}`)
  expectError(t, await page(70), 400, 'limit_exceeded')
  const smaller = await page(50)
  expectOk(t, smaller)
  const left = responseBytes - Buffer.byteLength(smaller.text)
  const largest = await page(50, 1 + left)
  expectOk(t, largest)
  t.is(Buffer.byteLength(largest.text), responseBytes)
  expectError(t, await page(50, 2 + left), 400, 'limit_exceeded')
})

test('response size: the limit applies to a page of the change feed', async t => {
  const start = (await api.get('/v1/changes?after=latest')).body.meta.links?.next ?? ''
  for (let batch = 0; batch < 50; batch++) {
    const users = Array.from({ length: 10 }, (_, n) => ({ first_name: `Change ${batch}`, last_name: `${n}` }))
    expectOk(t, await api.post('/v1/users', { users }))
  }
  const page = (size: number) => api.get(start.replace(/records_per_page=\d+/, `records_per_page=${size}`))
  const answer = await until(async () => {
    const large = await page(1000)
    return large.status !== 200 && large
  })
  expectError(t, answer, 400, 'limit_exceeded')
  t.is(
    answer.body.meta.message,
    `records_per_page: the page would have more than ${responseBytes} bytes: lower it`,
  )
  const smaller = await page(100)
  expectOk(t, smaller)
  t.true(Buffer.byteLength(smaller.text) <= responseBytes)
})

test('response size: one record and its list of related records are always returned', async t => {
  const id = await api.create('/v1/users', { first_name: 'Member', last_name: 'of many' })
  for (let group = 0; group < 80; group++) {
    const name = `member ${group} `.padEnd(255, '€')
    await api.post(`/v1/users/${id}/groups`, { id: await api.create('/v1/groups', { name }) })
  }
  const answer = await api.get(`/v1/users/${id}?include=groups`)
  expectOk(t, answer)
  t.true(Buffer.byteLength(answer.text) > responseBytes)
  t.is(answer.body.groups?.length, 80)
  t.is((await api.get(`/v1/users/${id}/groups`)).body.groups?.length, 80)
})

test('response size: a URL of the largest size can list values', async t => {
  for (const filter of ['first_name[in]=', 'groups[*].name[in]='])
    expectOk(t, await api.get(`/v1/users?${filter}`.padEnd(2 ** 16, ',')))
})
