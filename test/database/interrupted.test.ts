// Writes that the database interrupts. If the answer to COMMIT is lost, the response says whether the write was stored. If a
// statement has changed nothing, without an error, its transaction is repeated.
import test, { type ExecutionContext } from 'ava'
import type { Change } from '../../src/database/changes.ts'
import type { Database } from '../../src/database/database.ts'
import { users } from '../../src/model/users.ts'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import type { Answer } from '../support/http.ts'
import { type Fault, openMysqlProxy } from '../support/mysql-proxy.ts'
import { openDatabase } from '../support/open-database.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { until } from '../support/until.ts'
import { origin } from '../support/writers.ts'

const url = await createTestDatabase()
const mysqlProxy = await openMysqlProxy(url)
// The service removes old keys every minute, in a transaction that the fault could strike.
const config = { idempotency: { removeEveryMs: 3_600_000 } }
const { api, close } = await openApi({ database: mysqlProxy.url, config })
const database = openDatabase({ url: mysqlProxy.url }, { level: 'silent' })
const recording = openDatabase({ url: mysqlProxy.url }, { level: 'silent', recordsEvents: true })
const group = await api.create('/v1/groups', { name: 'Lost' })
test.after.always(async t => {
  mysqlProxy.disarm()
  await Promise.all([database.close(), recording.close()])
  await close(t)
  mysqlProxy.proxy.close()
})

/** The answer of MySQL to a statement after `wait_timeout`. */
const silentSession: Fault = { errno: 4031, sqlState: 'HY000' }

let sequence = 0
/** Applies a fault to the next COMMIT, but not to that of a compaction or a numbering, which a write can start at any time. */
const armCommit = (fault: Fault) =>
  mysqlProxy.arm(/COMMIT$/, fault, 1, /FROM count_changes\s+ORDER BY|FROM change_head/)
const person = () => ({ first_name: 'Lost', last_name: `${++sequence}` })

/** Every kind of write, with a function that reads whether it was stored. */
async function newWrites() {
  const [patched, deleted, joined, left] = await Promise.all(
    [1, 2, 3, 4].map(() => api.create('/v1/users', person())),
  )
  await api.post(`/v1/users/${left}/groups`, { id: group })
  const [one, keyed, first, second] = [person(), person(), person(), person()]
  const name = `Lost ${++sequence}`
  const doomed = await api.create('/v1/groups', { name: `Lost ${++sequence}` })
  await api.post(`/v1/users/${left}/groups`, { id: doomed })
  const found = async (path: string) => (await api.count(path)) === 1
  const byName =
    ({ last_name }: { last_name: string }) =>
    () =>
      found(`/v1/users?last_name=${last_name}`)
  const isMember = (user: number | undefined) => () => found(`/v1/users?id=${user}&groups[*].id=${group}`)
  const key = `key-${++sequence}`
  const writes: [send: () => Promise<Answer>, isStored: () => Promise<boolean>][] = [
    [() => api.post('/v1/users', one), byName(one)],
    [() => api.post('/v1/users', keyed, { 'idempotency-key': key }), byName(keyed)],
    [() => api.post('/v1/users', { users: [first, second] }), byName(second)],
    [() => api.post('/v1/groups', { name }), () => found(`/v1/groups?name=${encodeURIComponent(name)}`)],
    [
      () => api.patch(`/v1/users/${patched}`, { last_name: name }),
      byName({ last_name: encodeURIComponent(name) }),
    ],
    [() => api.delete(`/v1/users/${deleted}`), async () => !(await found(`/v1/users?id=${deleted}`))],
    [() => api.post(`/v1/users/${joined}/groups`, { id: group }), isMember(joined)],
    [() => api.delete(`/v1/users/${left}/groups/${group}`), async () => !(await isMember(left)())],
    [() => api.delete(`/v1/groups/${doomed}`), async () => !(await found(`/v1/groups?id=${doomed}`))],
  ]
  return { writes, key }
}

async function expectExactTotals(t: ExecutionContext): Promise<void> {
  for (const table of ['users', 'groups']) {
    const [row] = await database.query('SELECT COUNT(*) AS rows_stored FROM ??', [table])
    t.is(await api.count(`/v1/${table}`), Number(row?.rows_stored))
  }
}

test.serial(
  'COMMIT: a write that was stored succeeds if only the answer of the database is lost',
  async t => {
    for (const [send, isStored] of (await newWrites()).writes) {
      t.false(await isStored())
      armCommit('cut after')
      const answer = await send()
      t.is(mysqlProxy.struck(), 1)
      expectOk(t, answer)
      t.true(await isStored(), answer.text)
    }
    await expectExactTotals(t)
  },
)

test.serial('COMMIT: a write that was not stored is 503', async t => {
  for (const [send, isStored] of (await newWrites()).writes) {
    armCommit('cut before')
    const answer = await send()
    t.is(mysqlProxy.struck(), 1)
    expectError(t, answer, 503, 'unavailable')
    t.notRegex(answer.text, /unknown/)
    t.false(await isStored(), answer.text)
    expectOk(t, await send())
    t.true(await isStored(), answer.text)
  }
  await expectExactTotals(t)
})

test.serial('interrupted: a write is 503 if MySQL has ended the session, because it was silent', async t => {
  for (const statement of [/INSERT INTO `users`/, /COMMIT$/]) {
    const one = person()
    mysqlProxy.arm(statement, silentSession, 1, /FROM count_changes\s+ORDER BY|FROM change_head/)
    expectError(t, await api.post('/v1/users', one), 503, 'unavailable')
    t.is(mysqlProxy.struck(), 1)
    t.is(await api.count(`/v1/users?last_name=${one.last_name}`), 0)
  }
})

test.serial('COMMIT: a 503 says that the outcome is unknown if it cannot be read', async t => {
  mysqlProxy.arm(/COMMIT$|lock in share mode/, 'cut after', Infinity)
  const answer = await api.post('/v1/users', person())
  mysqlProxy.disarm()
  expectError(t, answer, 503, 'unavailable')
  t.regex(answer.body.meta.message ?? '', /unknown whether .* stored.*Idempotency-Key/)
  t.truthy(answer.headers['retry-after'])
  t.true(mysqlProxy.struck() > 2)
})

test.serial(
  'COMMIT: the outcome is unknown if the database does not answer, and has not stored it so far',
  async t => {
    const id = await api.create('/v1/users', person())
    const [row] = await database.query('SELECT version FROM users WHERE id = ?', [id])
    const version = Number(row?.version)
    const impatient = openDatabase({ url: mysqlProxy.url, queryTimeoutMs: 2000 }, { level: 'silent' })
    t.teardown(impatient.close)
    armCommit('no answer')
    const write = impatient.transaction(async trx =>
      trx.record({ type: 'updated', resource: users, id, before: version, after: version + 1, origin }),
    )
    await t.throwsAsync(write, { any: true, code: 'unavailable', message: /unknown/ })
  },
)

test.serial('COMMIT: the outcome is unknown if another transaction has changed the row since', async t => {
  const id = await api.create('/v1/users', person())
  armCommit('cut after')
  const write = database.transaction(async trx =>
    trx.record({ type: 'updated', resource: users, id, before: 1, after: 2, origin }),
  )
  await t.throwsAsync(write, { any: true, code: 'unavailable', message: /unknown/ })
})

test.serial(
  'COMMIT: a row that another transaction has deleted since is no proof, if there is another one',
  async t => {
    const id = await api.create('/v1/users', person())
    const [row] = await database.query('SELECT version FROM users WHERE id = ?', [id])
    const version = Number(row?.version)
    const absent = 2 ** 50
    const write = (
      fault: Fault,
      ...changes: readonly Pick<Change & { type: 'updated' }, 'id' | 'before' | 'after'>[]
    ) => {
      armCommit(fault)
      return database.transaction(async trx => {
        for (const change of changes) trx.record({ type: 'updated', resource: users, origin, ...change })
      })
    }
    const gone = { id: absent, before: 1, after: undefined }
    const made = { id: absent + 1, before: undefined, after: 1 }
    const notStored = write('cut before', { id, before: version, after: undefined }, gone)
    const error = await t.throwsAsync(notStored, { any: true, code: 'unavailable' })
    t.notRegex(String(error), /unknown/)
    const first = { id, before: version, after: absent }
    const twice = write('cut before', first, { id, before: absent, after: absent + 1 })
    t.notRegex(String(await t.throwsAsync(twice, { any: true, code: 'unavailable' })), /unknown/)
    await t.notThrowsAsync(write('cut after', { id, before: undefined, after: version }, made))
    await t.throwsAsync(write('cut after', gone, made), {
      any: true,
      code: 'unavailable',
      message: /unknown/,
    })
  },
)

test.serial(
  'COMMIT: the events show whether a transaction has created or deleted a record that is gone',
  async t => {
    const absent = 2 ** 50
    const write = (
      on: Database,
      fault: Fault,
      change: Pick<Change & { type: 'created' | 'deleted' }, 'type' | 'before' | 'after'>,
    ) => {
      armCommit(fault)
      return on.transaction(async trx => trx.record({ resource: users, id: absent, origin, ...change }))
    }
    const created = { type: 'created', before: undefined, after: 1 } as const
    const deleted = { type: 'deleted', before: 1, after: undefined } as const
    const unknown = { any: true, code: 'unavailable', message: /unknown/ } as const
    await t.throwsAsync(write(database, 'cut before', deleted), unknown)
    await t.notThrowsAsync(write(recording, 'cut after', created))
    await t.throwsAsync(write(recording, 'cut before', deleted), unknown)
    await t.notThrowsAsync(write(recording, 'cut after', deleted))
  },
)

test.serial('interrupted: a read is repeated if it conflicts with a change of the schema', async t => {
  const id = await api.create('/v1/users', person())
  const conflict = { errno: 1213, sqlState: '40001' }
  for (const path of [
    `/v1/users/${id}?include=groups`,
    '/v1/users',
    '/v1/users?sort=last_name&start_index=1',
  ]) {
    mysqlProxy.arm(/users/, conflict)
    expectOk(t, await api.get(path))
    t.is(mysqlProxy.struck(), 1, path)
  }
})

test.serial('interrupted: a transaction is repeated if one of its statements has changed no row', async t => {
  const { writes, key } = await newWrites()
  const [, keyed, , , patch, remove, join, leave] = writes
  const cases = [
    [patch, /UPDATE \(SELECT/],
    [remove, /DELETE `users`/],
    [join, /UPDATE `users` FORCE INDEX/],
    [leave, /DELETE memberships/],
    [keyed, /INSERT INTO idempotency_keys .* ON DUPLICATE/s],
  ] as const
  for (const [write, statement] of cases) {
    if (write === undefined) throw new Error('a write is missing')
    const [send, isStored] = write
    mysqlProxy.arm(statement, 'no rows')
    expectOk(t, await send())
    t.is(mysqlProxy.struck(), 1)
    t.true(await isStored())
  }
  const saved = await database.knex('idempotency_keys').where({ idempotency_key: key }).first('status')
  t.is(saved.status, 200)
  mysqlProxy.arm(/DELETE count_changes/, 'no rows')
  await until(async () => {
    // One of the writes may have started a compaction, which may move this row as well.
    await database.knex('count_changes').insert({ kind: 'unused', slot: 0, amount: 0 })
    await database.compact()
    return mysqlProxy.struck() === 1
  })
  await expectExactTotals(t)
})
