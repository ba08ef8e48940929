// Idempotency-Key: however often a POST is sent, through whichever worker, it is done once and has one answer.
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { type Answer, createClient } from '../support/http.ts'
import { createOperator } from '../support/operator.ts'
import { startService } from '../support/service.ts'

const keepSeconds = 3600
const { service, api, openClient, close } = await openApi({
  workers: 2,
  // Nothing is removed in the background before the tests have ended.
  config: { idempotency: { keepSeconds, removeEveryMs: 3_600_000 } },
})
// Several clients: their connections end at both workers.
const clients = Array.from({ length: 8 }, () => openClient())
const database = await mysql.createConnection(service.database)
const observer = await mysql.createConnection(service.database)
test.after.always(async t => {
  await Promise.all([database.end(), observer.end()])
  await close(t)
})

let made = 0
const person = () => ({ first_name: 'Ida', last_name: `Potent ${++made}` })
const newKey = () => `key-${++made}`
const withKey = (key: string) => ({ 'idempotency-key': key })
const count = ({ last_name }: { last_name: string }) =>
  api.count(`/v1/users?last_name=${encodeURIComponent(last_name)}`)

/** The answer is `first` again, to the byte, and says so. */
function expectReplay(t: ExecutionContext, answer: Answer, first: Answer): void {
  t.is(answer.headers['idempotent-replayed'], 'true', answer.text)
  t.is(answer.text, first.text)
  t.is(answer.status, first.status)
  for (const name of ['location', 'etag', 'content-type', 'cache-control'])
    t.is(answer.headers[name], first.headers[name])
}

async function expectOnce(t: ExecutionContext, path: string, body: unknown): Promise<Answer> {
  const key = newKey()
  const first = await api.post(path, body, withKey(key))
  t.is(first.headers['idempotent-replayed'], undefined)
  for (const client of clients) expectReplay(t, await client.post(path, body, withKey(key)), first)
  return first
}

test.serial('a repeated POST is answered as at first, whatever has become of it since', async t => {
  const [one, two, three] = [person(), person(), person()]
  const created = await expectOnce(t, '/v1/users', one)
  expectOk(t, created)
  t.is(await count(one), 1)
  const path = String(created.headers.location)
  t.is(created.headers.etag, (await api.get(path)).headers.etag)

  const batch = await expectOnce(t, '/v1/users', { users: [two, {}, one, three] })
  t.like(batch.body.meta, { status: 200, created: 2, failed: 2 })
  const group = await expectOnce(t, '/v1/groups', { name: newKey() })
  const member = await expectOnce(t, `${path}/groups`, { id: group.body.id })
  t.is(member.body.id, group.body.id)
  const members = await expectOnce(t, `${path}/groups`, { groups: [{ id: group.body.id }, { id: 9999999 }] })
  t.like(members.body.meta, { created: 0, failed: 1 })

  const key = newKey()
  const four = person()
  const first = await api.post('/v1/users', four, withKey(key))
  expectOk(t, await api.delete(String(first.headers.location)))
  expectReplay(t, await api.post('/v1/users', four, withKey(key)), first)
  t.is(await count(four), 0)
})

test.serial('what the database refuses is kept as well', async t => {
  const pair = person()
  const id = await api.create('/v1/users', pair)
  const key = newKey()
  const refused = await api.post('/v1/users', pair, withKey(key))
  expectError(t, refused, 409, 'user_exists')
  t.is(refused.headers['cache-control'], 'no-store')
  expectOk(t, await api.delete(`/v1/users/${id}`))
  const again = await api.post('/v1/users', pair, { ...withKey(key), 'request-id': 'again' })
  expectReplay(t, again, refused)
  t.is(again.headers['request-id'], 'again')
  t.is(again.body.meta.request_id, String(refused.headers['request-id']))
  t.is(await count(pair), 0)
  expectError(t, await expectOnce(t, `/v1/users/${id}/groups`, { id: 1 }), 404, 'user_not_found')
})

test.serial('what is wrong with a request itself is not kept', async t => {
  const key = newKey()
  for (const body of [{}, { users: [] }, 'no JSON'])
    t.is((await api.post('/v1/users', body, withKey(key))).status, 400)
  t.is((await api.post('/v1/users?x=1', person(), withKey(key))).status, 400)
  t.is((await api.post('/v1/users', person(), { ...withKey(key), 'if-match': '"x"' })).status, 412)
  const created = await api.post('/v1/users', person(), withKey(key))
  expectOk(t, created)
  t.is(created.headers['idempotent-replayed'], undefined)
})

test.serial('a key stands for one request only', async t => {
  const key = newKey()
  const [pair, other] = [person(), person()]
  const first = await api.post('/v1/users', pair, withKey(key))
  const attempts: [path: string, body: unknown][] = [
    ['/v1/users', other],
    ['/v1/users', { users: [pair] }],
    ['/v1/users', ` ${JSON.stringify(pair)}`],
    ['/v1/groups', { name: newKey() }],
    [`${first.headers.location}/groups`, { id: 1 }],
  ]
  for (const [path, body] of attempts)
    expectError(t, await api.post(path, body, withKey(key)), 422, 'idempotency_key_reused')
  t.is(await count(other), 0)
  expectReplay(t, await api.post('/v1/%75sers', pair, withKey(key)), first)
  for (const different of [key.toUpperCase(), `${key}-`, `"${key}"`])
    expectError(t, await api.post('/v1/users', pair, withKey(different)), 409, 'user_exists')
})

test.serial('a key is 1 to 255 visible ASCII characters; other methods have none', async t => {
  const pair = person()
  for (const bad of ['', 'a b', 'a\tb', 'x'.repeat(256), 'schlüssel', 'two, keys'])
    expectError(t, await api.post('/v1/users', pair, withKey(bad)), 400, 'malformed_request')
  const twice = { 'idempotency-key': ['a', 'a'] }
  expectError(t, await api.post('/v1/users', pair, twice), 400, 'malformed_request')
  t.is(await count(pair), 0)
  for (const good of ['x', '!~', 'x'.repeat(255), crypto.randomUUID()])
    await expectOk(t, await api.post('/v1/users', person(), withKey(good)))
  const id = await api.create('/v1/users', pair)
  for (const round of ['once', 'twice'])
    expectOk(t, await api.patch(`/v1/users/${id}`, { first_name: round }, withKey('x')))
})

test.serial('an answer too long to be kept is refused, and nothing is stored', async t => {
  const pair = person()
  // Each of the unknown fields makes a message much longer than itself.
  const unknown = Object.fromEntries(
    Array.from({ length: 10 }, (_, index) => [`${index}`.padStart(90, 'f'), 0]),
  )
  const faulty = Array.from({ length: 999 }, () => ({ ...unknown, ...person() }))
  const key = withKey(newKey())
  expectError(t, await api.post('/v1/users', { users: [pair, ...faulty] }, key), 400, 'limit_exceeded')
  t.is(await count(pair), 0)
  expectOk(t, await api.post('/v1/users', pair, key))
})

test.serial(
  'of 40 requests with one key at once one is done; the others are told so, or to wait',
  async t => {
    for (const many of [false, true]) {
      const pair = person()
      const body = many ? { users: [pair, person()] } : pair
      const key = withKey(newKey())
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          (clients[index % clients.length] ?? api).post('/v1/users', body, key),
        ),
      )
      const [first, ...more] = answers.filter(
        ({ status, headers }) => status === 200 && headers['idempotent-replayed'] === undefined,
      )
      t.deepEqual(more, [])
      if (first === undefined) return t.fail('nobody came first')
      for (const answer of answers)
        if (answer.status === 409) {
          expectError(t, answer, 409, 'request_in_progress')
          t.is(answer.headers['retry-after'], '1')
        } else if (answer !== first) expectReplay(t, answer, first)
      expectReplay(t, await api.post('/v1/users', body, key), first)
      t.is(await count(pair), 1)
    }
  },
)

/** Another transaction that has not yet decided whether it creates the pair: whoever creates it has to wait. */
async function reserve(pair: ReturnType<typeof person>): Promise<void> {
  await database.beginTransaction()
  await database.query('INSERT INTO users SET ?, version = 1', pair)
}

const lockSql = 'SELECT body FROM idempotency_keys WHERE idempotency_key = ? FOR UPDATE NOWAIT'

/** Resolves when a transaction has taken the key. */
async function taken(key: string): Promise<void> {
  const free = await observer.query(lockSql, [key]).catch(() => undefined)
  if (free !== undefined) await taken(key)
}

test.serial('a request that is in progress is answered 409 at once, not when the other one ends', async t => {
  const pair = person()
  const key = newKey()
  await reserve(pair)
  const first = api.post('/v1/users', pair, withKey(key))
  await taken(key)
  for (const client of clients)
    expectError(t, await client.post('/v1/users', pair, withKey(key)), 409, 'request_in_progress')
  await database.rollback()
  expectOk(t, await first)
  t.is(await count(pair), 1)
})

test.serial('who reads a kept answer waits for nobody, and hinders nobody', async t => {
  const pair = person()
  const key = newKey()
  const first = await api.post('/v1/users', pair, withKey(key))
  await database.beginTransaction()
  await database.query(lockSql, [key])
  for (const client of clients) expectReplay(t, await client.post('/v1/users', pair, withKey(key)), first)
  await database.rollback()
})

test.serial('workers killed in the middle leave nothing, and a later request does it', async t => {
  const pair = person()
  const body = { users: [person(), pair, person()] }
  const key = newKey()
  await reserve(pair)
  const lost = api.post('/v1/users', body, withKey(key)).catch((error: Error) => error)
  await taken(key)
  const killed = await service.workers()
  for (const pid of killed) process.kill(pid, 'SIGKILL')
  t.true((await lost) instanceof Error)
  await createOperator(service).until(({ workers }) => {
    const ready = workers.filter(({ state }) => state === 'ready').map(({ pid }) => pid ?? 0)
    return ready.length === 2 && !ready.some(pid => killed.includes(pid))
  })
  await database.rollback()
  const send = () => api.post('/v1/users', body, withKey(key))
  let answer = await send()
  // Until the database has seen that the connection is gone.
  while (answer.body.meta.code === 'request_in_progress') answer = await send()
  t.is(answer.headers['idempotent-replayed'], undefined)
  t.like(answer.body.meta, { created: 3, failed: 0 })
  expectReplay(t, await send(), answer)
  for (const one of body.users) t.is(await count(one), 1)
})

const age = (seconds: number) =>
  database.query('UPDATE idempotency_keys SET created_at = created_at - INTERVAL ? SECOND', [seconds])

test.serial('a key whose time is over is free again', async t => {
  const key = withKey(newKey())
  const [pair, other] = [person(), person()]
  const first = await api.post('/v1/users', pair, key)
  await age(keepSeconds - 100)
  expectReplay(t, await api.post('/v1/users', pair, key), first)
  await age(200)
  const second = await api.post('/v1/users', other, key)
  expectOk(t, second)
  expectReplay(t, await api.post('/v1/users', other, key), second)
})

const keptKeys = async (): Promise<number> => {
  const [rows] = await database.query<mysql.RowDataPacket[]>('SELECT COUNT(*) AS kept FROM idempotency_keys')
  return Number(rows[0]?.kept)
}

test.serial('every node knows the answers of the others, and old ones are removed', async t => {
  await age(keepSeconds + 100)
  const rows = Array.from({ length: 1000 }, (_, index) => [`old-${index}`, '', '2001-01-01', 200, '{}'])
  const columns = 'idempotency_key, fingerprint, created_at, status, body'
  await database.query(`INSERT INTO idempotency_keys (${columns}) VALUES ?`, [rows])
  const [pair, key] = [person(), withKey(newKey())]
  const first = await api.post('/v1/users', pair, key)
  const config = { idempotency: { keepSeconds, removeEveryMs: 50 } }
  const node = await startService({ database: service.database, workers: 2, config })
  const client = createClient(node.url)
  // Both of its workers remove them, in portions.
  while ((await keptKeys()) > 1);
  expectReplay(t, await client.post('/v1/users', pair, key), first)
  expectError(t, await client.post('/v1/users', person(), key), 422, 'idempotency_key_reused')
  const other = await client.post('/v1/users', person(), withKey(newKey()))
  client.close()
  t.is(await node.stop(), 0)
  t.is(await keptKeys(), 2)
  expectOk(t, other)
})
