// Idempotency-Key: a POST that is repeated with the same key, through any worker or node, is processed once
// and always returns the first response.
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { type Answer, type Client, createClient } from '../support/http.ts'
import { createOperator } from '../support/operator.ts'
import { createUser, newPerson } from '../support/records.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const keepSeconds = 3600
const { service, api, openClient, close } = await openApi({
  workers: 2,
  // Keeps the periodic removal of old keys from running during the tests.
  config: { idempotency: { keepSeconds, removeEveryMs: 3_600_000 } },
})
// Several connections, so that both workers receive requests.
const clients = Array.from({ length: 8 }, () => openClient())
const database = await mysql.createConnection(service.database)
const observer = await mysql.createConnection(service.database)
test.after.always(async t => {
  await Promise.all([database.end(), observer.end()])
  await close(t)
})

let sequence = 0
const newKey = () => `key-${++sequence}`
const withKey = (key: string) => ({ 'idempotency-key': key })
const count = ({ last_name }: { last_name: string }) =>
  api.count(`/v1/users?last_name=${encodeURIComponent(last_name)}`)

/** Asserts that `answer` is marked as a replay and equals `first` to the byte. */
function expectReplay(t: ExecutionContext, answer: Answer, first: Answer): void {
  t.is(answer.headers['idempotent-replayed'], 'true', answer.text)
  t.is(answer.text, first.text)
  t.is(answer.status, first.status)
  for (const name of ['location', 'etag', 'content-type', 'cache-control'])
    t.is(answer.headers[name], first.headers[name])
}

/** Sends a POST once and repeats it through every client. Returns the first response. */
async function expectOnce(t: ExecutionContext, path: string, body: unknown): Promise<Answer> {
  const key = newKey()
  const first = await api.post(path, body, withKey(key))
  t.is(first.headers['idempotent-replayed'], undefined)
  for (const client of clients) expectReplay(t, await client.post(path, body, withKey(key)), first)
  return first
}

test.serial(
  'idempotency: a repeated POST returns the first response even if the resource has changed since',
  async t => {
    const [one, two, three] = [newPerson(), newPerson(), newPerson()]
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
    const members = await expectOnce(t, `${path}/groups`, {
      groups: [{ id: group.body.id }, { id: 9999999 }],
    })
    t.like(members.body.meta, { created: 0, failed: 1 })

    const key = newKey()
    const four = newPerson()
    const first = await api.post('/v1/users', four, withKey(key))
    expectOk(t, await api.delete(String(first.headers.location)))
    expectReplay(t, await api.post('/v1/users', four, withKey(key)), first)
    t.is(await count(four), 0)
  },
)

test.serial('idempotency: conflicts and missing resources are replayed', async t => {
  const pair = newPerson()
  const id = await api.create('/v1/users', pair)
  const key = newKey()
  const conflict = await api.post('/v1/users', pair, withKey(key))
  expectError(t, conflict, 409, 'user_exists')
  t.is(conflict.headers['cache-control'], 'no-store')
  expectOk(t, await api.delete(`/v1/users/${id}`))
  const again = await api.post('/v1/users', pair, { ...withKey(key), 'request-id': 'again' })
  expectReplay(t, again, conflict)
  t.is(again.headers['request-id'], 'again')
  t.is(again.body.meta.request_id, String(conflict.headers['request-id']))
  t.is(await count(pair), 0)
  expectError(t, await expectOnce(t, `/v1/users/${id}/groups`, { id: 1 }), 404, 'user_not_found')
})

test.serial('idempotency: invalid requests and failed preconditions are not saved', async t => {
  const key = newKey()
  for (const body of [{}, { users: [] }, 'no JSON'])
    t.is((await api.post('/v1/users', body, withKey(key))).status, 400)
  t.is((await api.post('/v1/users?x=1', newPerson(), withKey(key))).status, 400)
  t.is((await api.post('/v1/users', newPerson(), { ...withKey(key), 'if-match': '"x"' })).status, 412)
  const created = await api.post('/v1/users', newPerson(), withKey(key))
  expectOk(t, created)
  t.is(created.headers['idempotent-replayed'], undefined)
})

test.serial('idempotency: a membership that got 412 can be sent again with the current ETag', async t => {
  const group = await api.create('/v1/groups', { name: newKey() })
  const path = `/v1/users/${await createUser(api)}`
  const groupPath = `/v1/groups/${group}`
  for (const [record, memberships, body] of [
    [path, `${path}/groups`, { id: group }],
    [path, `${path}/groups`, { groups: [{ id: group }, { id: 9999999 }] }],
    [groupPath, `${groupPath}/users`, { users: [{ id: Number(path.split('/').at(-1)) }] }],
  ] as const) {
    const key = withKey(newKey())
    const attempt = (etag: string) => api.post(memberships, body, { ...key, 'if-match': etag })
    expectError(t, await attempt('"outdated"'), 412, 'precondition_failed')
    const first = await attempt(String((await api.get(record)).headers.etag))
    expectOk(t, first)
    t.is(first.headers['idempotent-replayed'], undefined)
    expectReplay(t, await attempt('"outdated"'), first)
  }
})

test.serial('idempotency: a key that is reused for another request is 422', async t => {
  const key = newKey()
  const [pair, other] = [newPerson(), newPerson()]
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
  const group = { id: await api.create('/v1/groups', { name: newKey() }) }
  const [member, stranger] = [await api.create('/v1/users', other), await createUser(api)]
  const joined = withKey(newKey())
  expectOk(t, await api.post(`/v1/users/${member}/groups`, group, joined))
  const elsewhere = await api.post(`/v1/users/${stranger}/groups`, group, joined)
  expectError(t, elsewhere, 422, 'idempotency_key_reused')
  for (const different of [key.toUpperCase(), `${key}-`, `"${key}"`])
    expectError(t, await api.post('/v1/users', pair, withKey(different)), 409, 'user_exists')
})

test.serial(
  'idempotency: a key has 1 to 255 visible ASCII characters, and methods other than POST ignore it',
  async t => {
    const pair = newPerson()
    for (const bad of ['', 'a b', 'a\tb', 'x'.repeat(256), 'schlüssel', 'two, keys'])
      expectError(t, await api.post('/v1/users', pair, withKey(bad)), 400, 'malformed_request')
    const twice = { 'idempotency-key': ['a', 'a'] }
    expectError(t, await api.post('/v1/users', pair, twice), 400, 'malformed_request')
    t.is(await count(pair), 0)
    for (const good of ['x', '!~', 'x'.repeat(255), crypto.randomUUID()])
      await expectOk(t, await api.post('/v1/users', newPerson(), withKey(good)))
    const id = await api.create('/v1/users', pair)
    for (const round of ['once', 'twice'])
      expectOk(t, await api.patch(`/v1/users/${id}`, { first_name: round }, withKey('x')))
  },
)

/** The saved row of a key, and its size in bytes. */
async function savedRow(key: string): Promise<mysql.RowDataPacket | undefined> {
  const [[row]] = await observer.query<mysql.RowDataPacket[]>(
    `SELECT status, body, COALESCE(LENGTH(body), 0) + COALESCE(LENGTH(packed), 0) AS size
     FROM idempotency_keys WHERE idempotency_key = ?`,
    [key],
  )
  return row
}

test.serial(
  'idempotency: a batch whose entries are all invalid is not saved, and leaves its key free',
  async t => {
    const [pair, group] = [newPerson(), { name: newKey() }]
    const user = await createUser(api)
    const groupId = await api.create('/v1/groups', group)
    const attempts: [path: string, invalid: unknown, valid: unknown][] = [
      ['/v1/users', { users: Array.from({ length: 1000 }, () => ({})) }, { users: [pair] }],
      ['/v1/groups', { groups: [null, { name: '' }] }, { groups: [{ name: newKey() }] }],
      [`/v1/users/${user}/groups`, { groups: [{}, { id: 'x' }] }, { groups: [{ id: groupId }] }],
    ]
    for (const [path, invalid, valid] of attempts) {
      const key = newKey()
      for (let repeat = 0; repeat < 2; repeat++) {
        const answer = await api.post(path, invalid, withKey(key))
        t.like(answer.body.meta, { status: 200, created: 0 }, answer.text)
        t.is(answer.headers['idempotent-replayed'], undefined)
      }
      t.is(await savedRow(key), undefined)
      t.like((await api.post(path, valid, withKey(key))).body.meta, { created: 1, failed: 0 })
      expectError(t, await api.post(path, invalid, withKey('a b')), 400, 'malformed_request')
    }
  },
)

test.serial('idempotency: a saved response is not larger than its request and its fields', async t => {
  const taken = await api.post('/v1/users', newPerson())
  const { first_name, last_name } = taken.body
  const many = (entry: (index: number) => unknown) => ({
    users: [newPerson(), ...Array.from({ length: 999 }, (_, index) => entry(index))],
  })
  const batches = [
    many(() => ({})),
    many(() => 0),
    many(index => ({ first_name: `${index}`, [`field ${index}`]: 1 })),
    many(() => ({ first_name, last_name })),
  ]
  for (const batch of batches) {
    const key = newKey()
    const first = await api.post('/v1/users', batch, withKey(key))
    t.like(first.body.meta, { status: 200, created: 1, failed: 999 })
    for (const client of clients) expectReplay(t, await client.post('/v1/users', batch, withKey(key)), first)
    const row = await savedRow(key)
    const sentBytes = JSON.stringify(batch).length
    t.true(Number(row?.size) < sentBytes + 3000, `${row?.size} bytes saved for ${sentBytes}`)
  }
})

test.serial(
  'idempotency: a request whose response is too long to save is rejected and stores nothing',
  async t => {
    const pair = newPerson()
    // Each unknown field adds a message that is much longer than the field.
    const unknown = Object.fromEntries(
      Array.from({ length: 10 }, (_, index) => [`${index}`.padStart(90, 'f'), 0]),
    )
    const faulty = Array.from({ length: 999 }, () => ({ ...unknown, ...newPerson() }))
    const key = withKey(newKey())
    expectError(t, await api.post('/v1/users', { users: [pair, ...faulty] }, key), 400, 'limit_exceeded')
    t.is(await count(pair), 0)
    expectOk(t, await api.post('/v1/users', pair, key))
  },
)

test.serial(
  'idempotency: of 40 concurrent requests with one key one is processed, the others are replays or 409',
  async t => {
    for (const many of [false, true]) {
      const pair = newPerson()
      const body = many ? { users: [pair, newPerson()] } : pair
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
      if (first === undefined) return t.fail('no request was processed')
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

/** Inserts the user in an open transaction, so that creating the same user waits for its lock. */
async function reserve(pair: ReturnType<typeof newPerson>): Promise<void> {
  await database.beginTransaction()
  await database.query('INSERT INTO users SET ?, version = 1', pair)
}

const lockSql = 'SELECT body FROM idempotency_keys WHERE idempotency_key = ? FOR UPDATE NOWAIT'

/** Resolves when a transaction has locked the key. */
async function untilLocked(key: string): Promise<void> {
  const unlocked = await observer.query(lockSql, [key]).catch(() => undefined)
  if (unlocked !== undefined) await untilLocked(key)
}

test.serial(
  'idempotency: of a request and its repeats, one is in progress, and the others are 409 meanwhile',
  async t => {
    const pair = newPerson()
    const key = newKey()
    await reserve(pair)
    const answers: Answer[] = []
    const send = async (client: Client) =>
      void answers.push(await client.post('/v1/users', pair, withKey(key)))
    const requests = [send(api)]
    await untilLocked(key)
    // One that arrives between two tries of the first request takes its place.
    requests.push(...clients.map(send))
    await until(() => answers.length === clients.length)
    for (const answer of answers) expectError(t, answer, 409, 'request_in_progress')
    await database.rollback()
    await Promise.all(requests)
    t.is(answers.length, clients.length + 1)
    for (const answer of answers.slice(clients.length)) expectOk(t, answer)
    t.is(await count(pair), 1)
  },
)

test.serial(
  'idempotency: concurrent repeats of a saved request are replays, also through one worker',
  async t => {
    const pair = newPerson()
    const key = newKey()
    const first = await api.post('/v1/users', pair, withKey(key))
    const repeats = [...clients, ...clients].map(client => client.post('/v1/users', pair, withKey(key)))
    for (const answer of await Promise.all(repeats)) expectReplay(t, answer, first)
    const others = clients.map(client => client.post('/v1/users', newPerson(), withKey(key)))
    for (const answer of await Promise.all(others)) expectError(t, answer, 422, 'idempotency_key_reused')
  },
)

test.serial('idempotency: of requests that share a transaction, each gets its own response', async t => {
  const [taken, saved] = [newPerson(), newPerson()]
  await api.create('/v1/users', taken)
  const savedKey = newKey()
  const first = await api.post('/v1/users', saved, withKey(savedKey))
  const group = await api.create('/v1/groups', { name: newKey() })
  const path = `/v1/groups/${group}/users`
  for (let round = 0; round < 5; round++) {
    const members = await Promise.all(clients.map(client => createUser(client)))
    const sent = members.flatMap((id, index) => {
      const fresh = newPerson()
      return [
        { path: '/v1/users', body: fresh, headers: withKey(newKey()), status: 200 },
        { path: '/v1/users', body: newPerson(), headers: {}, status: 200 },
        { path: '/v1/users', body: taken, headers: withKey(newKey()), status: 409 },
        { path: '/v1/users', body: { users: [newPerson(), taken] }, headers: withKey(newKey()), status: 200 },
        { path, body: { id }, headers: withKey(newKey()), status: 200 },
        { path, body: { id: 9_999_999 }, headers: withKey(newKey()), status: 404 },
        // It gives up its key, in the transaction of the others.
        ...(index === 3
          ? [{ path, body: { id }, headers: { ...withKey(newKey()), 'if-match': '"stale"' }, status: 412 }]
          : []),
        ...(index === 5
          ? [
              { path: '/v1/users', body: fresh, headers: withKey(savedKey), status: 422 },
              { path: '/v1/users', body: saved, headers: withKey(newKey()), status: 409 },
            ]
          : []),
      ]
    })
    const answers = await Promise.all(
      sent.map(({ path, body, headers }, at) => clients[at % clients.length]?.post(path, body, headers)),
    )
    t.deepEqual(
      answers.map(answer => answer?.status),
      sent.map(({ status }) => status),
    )
    for (const [at, { path, body, headers, status }] of sent.entries()) {
      const answer = answers[at]
      if (!('idempotency-key' in headers) || answer === undefined || status === 412 || status === 422)
        continue
      expectReplay(t, await api.post(path, body, headers), answer)
    }
    expectReplay(t, await api.post('/v1/users', saved, withKey(savedKey)), first)
    t.is(await api.count(path), clients.length * (round + 1))
  }
})

test.serial('idempotency: replays do not wait for a lock on the key', async t => {
  const pair = newPerson()
  const key = newKey()
  const first = await api.post('/v1/users', pair, withKey(key))
  await database.beginTransaction()
  await database.query(lockSql, [key])
  for (const client of clients) expectReplay(t, await client.post('/v1/users', pair, withKey(key)), first)
  await database.rollback()
})

test.serial('idempotency: killed workers leave nothing stored, and a later request is processed', async t => {
  const pair = newPerson()
  const body = { users: [newPerson(), pair, newPerson()] }
  const key = newKey()
  await reserve(pair)
  const lost = api.post('/v1/users', body, withKey(key)).catch((error: Error) => error)
  await untilLocked(key)
  const killed = await service.workers()
  for (const pid of killed) process.kill(pid, 'SIGKILL')
  t.true((await lost) instanceof Error)
  await createOperator(service).until(({ workers }) => {
    const ready = workers.filter(({ state }) => state === 'ready').map(({ pid }) => pid ?? 0)
    return ready.length === 2 && !ready.some(pid => killed.includes(pid))
  })
  await database.rollback()
  const send = () => api.post('/v1/users', body, withKey(key))
  // The key stays locked until the database notices that the worker's connection is closed.
  const answer = await until(async () => {
    const one = await send()
    return one.body.meta.code !== 'request_in_progress' && one
  })
  t.is(answer.headers['idempotent-replayed'], undefined)
  t.like(answer.body.meta, { created: 3, failed: 0 })
  expectReplay(t, await send(), answer)
  for (const one of body.users) t.is(await count(one), 1)
})

/** Makes all saved keys `seconds` older. */
const age = (seconds: number) =>
  database.query('UPDATE idempotency_keys SET created_at = created_at - INTERVAL ? SECOND', [seconds])

test.serial('idempotency: an expired key can be used for another request', async t => {
  const key = withKey(newKey())
  const [pair, other] = [newPerson(), newPerson()]
  const first = await api.post('/v1/users', pair, key)
  await age(keepSeconds - 100)
  expectReplay(t, await api.post('/v1/users', pair, key), first)
  await age(200)
  await reserve(other)
  // One of the two holds the key while it waits for the name: the first one, or one that arrives between two of its tries.
  const writing = [api, openClient()].map(client => client.post('/v1/users', other, key))
  const refused = await Promise.race(writing)
  expectError(t, refused, 409, 'request_in_progress')
  await database.rollback()
  const second = (await Promise.all(writing)).find(answer => answer !== refused) ?? refused
  expectOk(t, second)
  expectReplay(t, await api.post('/v1/users', other, key), second)
})

const countKeys = async (): Promise<number> => {
  const [rows] = await database.query<mysql.RowDataPacket[]>('SELECT COUNT(*) AS total FROM idempotency_keys')
  return Number(rows[0]?.total)
}

test.serial('idempotency: nodes share saved responses and remove expired ones', async t => {
  await age(keepSeconds + 100)
  const rows = Array.from({ length: 1000 }, (_, index) => [`old-${index}`, '', '2001-01-01', 200, '{}'])
  const columns = 'idempotency_key, fingerprint, created_at, status, body'
  await database.query(`INSERT INTO idempotency_keys (${columns}) VALUES ?`, [rows])
  const [pair, key] = [newPerson(), withKey(newKey())]
  const first = await api.post('/v1/users', pair, key)
  const config = { idempotency: { keepSeconds, removeEveryMs: 50 } }
  const node = await startService({ database: service.database, workers: 2, config })
  t.teardown(() => node.stop())
  const client = createClient(node.url)
  // Both workers of the node remove the keys in batches.
  await until(async () => (await countKeys()) <= 1)
  expectReplay(t, await client.post('/v1/users', pair, key), first)
  expectError(t, await client.post('/v1/users', newPerson(), key), 422, 'idempotency_key_reused')
  const other = await client.post('/v1/users', newPerson(), withKey(newKey()))
  client.close()
  t.is(await node.stop(), 0)
  t.is(await countKeys(), 2)
  expectOk(t, other)
})
