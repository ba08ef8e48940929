// Pages that are slow or large: they leave connections and memory of the worker to other requests.
import test from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { expectOk } from '../support/expect.ts'
import { connect } from '../support/raw.ts'
import { ask, createDatabase } from '../support/service.ts'
import { sessionsOf } from '../support/sessions.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()
// The pages wait for their turn until the test has seen that they do, which takes a heartbeat or more.
const limits = { poolMax: 10, acquireTimeoutMs: 60_000, queryTimeoutMs: 60_000 }
const { service, api, close } = await openApi({ database, config: { database: limits } })
const other = await mysql.createConnection(database)
test.after.always(async t => {
  other.destroy()
  await close(t)
})

const users = Array.from({ length: 120 }, (_, n) => ({ first_name: 'Ada', last_name: `${n}` }))

test.before(async () => {
  // Otherwise, MySQL would lock the users with the memberships.
  await other.query(
    'ALTER TABLE memberships DROP FOREIGN KEY memberships_user_id, DROP FOREIGN KEY memberships_group_id',
  )
  await api.post('/v1/users', { users })
})

/** Returns the number of statements that wait for the lock. */
async function waiting(): Promise<number> {
  return (await sessionsOf(database, other)).filter(({ state }) => state?.includes('metadata lock')).length
}

async function inFlight(): Promise<number> {
  const text = (await ask(`${service.controlUrl}/status`))?.text ?? ''
  return Math.max(...Array.from(text.matchAll(/"in_flight":(\d+)/g), ([, count]) => Number(count)))
}

/** Sends the requests while no statement can read the memberships, and calls `act` when `count` statements wait. */
async function whileBlocked(paths: readonly string[], count: number, act: () => Promise<void>) {
  await other.query('LOCK TABLES memberships WRITE')
  const answers = paths.map(path => api.get(path))
  try {
    await until(async () => (await inFlight()) >= paths.length && (await waiting()) >= count)
    await act()
  } finally {
    await other.query('UNLOCK TABLES')
  }
  return Promise.all(answers)
}

/** Three have their turn, and one its trial. */
const maxSlow = 4

test.serial('slow pages: other requests are served while more slow pages wait than the pool has', async t => {
  const filters = ['groups[*].name[prefix]=a', 'id[in]=1,2&groups[*].name[prefix]=a']
  const paths = Array.from({ length: 20 }, (_, n) => `/v1/users?${filters[n % 2]}&start_index=${n}`)
  const fast: Promise<void>[] = []
  const answers = await whileBlocked(paths, maxSlow - 1, async () => {
    t.true((await waiting()) <= maxSlow)
    expectOk(t, await api.post('/v1/users', { first_name: 'Grace', last_name: 'Hopper' }))
    for (const path of ['/1', '', '?start_index=100', '?first_name=Ada&last_name=7', '?id[in]=1,2'])
      expectOk(t, await api.get(`/v1/users${path}`))
    expectOk(t, await api.patch('/v1/users/1', { first_name: 'Augusta' }))
    // On a busy machine, a trial can be too short for a fast page. Different pages do not share a read.
    let isAnswered = false
    await until(() => {
      const page = api.get(`/v1/users?search=ada&last_name[prefix]=1&start_index=${fast.length}`)
      fast.push(
        page.then(answer => {
          expectOk(t, answer)
          t.is(answer.body.meta.total_records, 31)
          isAnswered = true
        }),
      )
      return isAnswered
    })
    t.true((await waiting()) <= maxSlow)
  })
  for (const { status } of answers) t.is(status, 200)
  await Promise.all(fast)
})

test.serial('large pages: two are made at a time, and small ones do not wait for them', async t => {
  const paths = Array.from(
    { length: 8 },
    (_, n) => `/v1/users?include=groups&records_per_page=1000&start_index=${n}`,
  )
  const answers = await whileBlocked(paths, 2, async () => {
    t.is(await waiting(), 2)
    const small = api.get('/v1/users?include=groups')
    await until(async () => (await waiting()) === 3)
    await other.query('UNLOCK TABLES')
    expectOk(t, await small)
  })
  for (const { status } of answers) t.is(status, 200)
})

test.serial('large pages: many clients that ask for the same one take little memory', async t => {
  const groups = Array.from({ length: 100 }, (_, n) => ({ name: `${n}${'\u{1d11e}'.repeat(250)}` }))
  const { body } = await api.post('/v1/groups', { groups })
  const created = body.groups?.map(({ id }) => ({ id }))
  for (let id = 1; id <= users.length; id++)
    expectOk(t, await api.post(`/v1/users/${id}/groups`, { groups: created }))
  const path = '/v1/users?include=groups&records_per_page=1000'
  t.true(Buffer.byteLength((await api.get(path)).text) > 12_000_000)
  const clients = await Promise.all(Array.from({ length: 80 }, () => connect(service.port('http'))))
  const values = async (name: string) =>
    Array.from(((await ask(`${service.controlUrl}/status`))?.text ?? '').matchAll(/"(\w+)":(\d+)/g))
      .filter(([, found]) => found === name)
      .map(([, , value]) => Number(value))
  await until(async () => Math.max(...(await values('connections'))) >= clients.length)
  for (const { socket, write } of clients) {
    socket.pause()
    write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
  }
  let mostBytes = 0
  // limits.unreadBytes is the size of five of these pages. The other clients are disconnected.
  await until(async () => {
    mostBytes = Math.max(mostBytes, ...(await values('memory_bytes')))
    return Math.max(...(await values('connections'))) < clients.length
  })
  t.true(mostBytes < 500 * 2 ** 20, `${mostBytes} bytes`)
  for (const { socket } of clients) socket.destroy()
})
