// Several nodes on a real cluster of three database servers: Galera if the tests run on MariaDB, Group Replication with
// three primaries if they run on MySQL.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { findInstallation } from '../../src/cli/private-servers/mysql.ts'
import { loadConfig } from '../../src/config/config.ts'
import { withDatabase } from '../../src/config/host-urls.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase, type Database } from '../../src/database/database.ts'
import { unpackEvents } from '../../src/database/feed/events.ts'
import { migrations } from '../../src/database/migrations/index.ts'
import { migrate } from '../../src/database/migrator.ts'
import { groups } from '../../src/model/groups.ts'
import { users } from '../../src/model/users.ts'
import { executeOn, waitForWrites } from '../support/execute.ts'
import { createOperator } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import {
  countsOf,
  countUp,
  createSequencesSql,
  expectInOrder,
  insertSequences,
  readAll,
  upTo,
} from '../support/sequences.ts'
import { ask, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { createWriters } from '../support/writers.ts'
import { startGalera } from '../trial/galera.ts'
import { startGroupReplication } from '../trial/group-replication.ts'

const config = await loadConfig()
const log = createLog('silent', 'test')
const isMariadb = (await findInstallation())?.isMariadb === true
const base = await mkdtemp(join(tmpdir(), 'users-api-cluster-'))
const claim = await claimPorts()
const options = { base: join(base, 'cluster'), count: 3, firstPort: claim.first, print: () => {} }
const cluster = await (isMariadb
  ? startGalera(options)
  : startGroupReplication({ ...options, multiPrimary: true }))
const urls = cluster.servers.map(({ url }) => withDatabase(url, 'users'))
const [first = '', , last = ''] = urls
const allHosts = first.replace(new URL(first).host, urls.map(url => new URL(url).host).join())
await migrate(first, log)
const nodes = urls.map(url => createDatabase({ ...config.database, url }, log))

test.after.always(async () => {
  await Promise.all(nodes.map(node => node.close()))
  await Promise.all(cluster.servers.map(server => server.stop('SIGKILL')))
  await rm(base, { recursive: true, force: true })
  await claim.release()
})

const activitySql = [
  "SELECT user, time, state, info FROM information_schema.processlist WHERE command <> 'Sleep'",
  "SHOW STATUS WHERE variable_name IN ('wsrep_cluster_status', 'wsrep_local_state_comment', 'wsrep_flow_control_active')",
]

/** Returns what each server does, in case the cause of a failure is in the cluster. */
async function activity(): Promise<string> {
  const lines: string[] = []
  for (const url of urls)
    for (const sql of activitySql)
      lines.push(await executeOn(url, sql).then(JSON.stringify, (error: unknown) => String(error)))
  return lines.join('\n')
}

test.afterEach.always(async t => {
  if (!t.passed) t.fail(await activity())
})

const writersOf = (node: Database) => createWriters(node, users)

const isolate = (value: 0 | 1) => `SET GLOBAL wsrep_provider_options = 'gmcast.isolate=${value}'`

test.serial('migrations: from all nodes at once, each is applied once', async t => {
  for (let round = 0; round < 3; round++) {
    const results = await Promise.all(urls.map(url => migrate(withDatabase(url, `round${round}`), log)))
    t.deepEqual(
      results.filter(applied => applied.length > 0),
      [migrations.map(({ name }) => name)],
    )
  }
})

test.serial('reads: what one node has written, every other node reads at once', async t => {
  const writers = nodes.map(writersOf)
  let ended = false
  // Large transactions of one node, which the others apply later.
  const load = (async () => {
    for (let n = 0; !ended; n++)
      await writers[0]?.insertMany(
        Array.from({ length: 500 }, (_, row) => ({ first_name: `${n}`, last_name: `${row}` })),
      )
  })()
  const row = await writers[0]?.insertOne({ first_name: 'hot', last_name: 'row' })
  let stale = 0
  for (let n = 0; n < 150; n++) {
    const written = await writers[n % 2]?.update(row?.id ?? 0, { first_name: `${n}` })
    const sql = 'SELECT version FROM users WHERE id = ?'
    const [read] = (await nodes[2]?.query(sql, [row?.id])) ?? []
    if (typeof written !== 'object' || read?.version !== written.version) stale++
  }
  ended = true
  await load
  t.is(stale, 0)
})

test.serial(
  'change feed: all servers append and number, and each record keeps the order of its changes',
  async t => {
    const [one] = nodes
    if (one === undefined) throw new Error('no node')
    await executeOn(first, createSequencesSql)
    await insertSequences(one, 4)
    const write = (perNode: number, isNumbering: boolean) =>
      Promise.all(
        nodes.map(async (node, at) => {
          for (let n = 0; n < perNode; n++) {
            const id = 1 + ((n + at) % 4)
            await countUp(node, n % 5 === 0 ? [id, 1 + (id % 4)].sort() : [id], `${at}`)
            if (isNumbering && n % 3 === at) await node.numbering.number()
          }
        }),
      )
    // First without numbers: the ids of the queue alone give the order of the changes of each record.
    await write(40, false)
    const queue = await one.query('SELECT events FROM change_queue ORDER BY id', [])
    const changes = queue.flatMap(({ events }) => unpackEvents({ amount: 0, events: String(events) }, 0, ''))
    t.is(countsOf(changes).size, 4)
    expectInOrder(t, changes)
    const servers = new Set(changes.map(({ text }) => JSON.parse(text).by))
    t.is(servers.size, 3)
    await write(40, true)
    await Promise.all(nodes.map(node => node.numbering.number()))
    const feeds = await Promise.all(nodes.map(readAll))
    const events = feeds[0] ?? []
    const ids = events.map(({ id }) => id)
    t.deepEqual(ids, upTo(2 * 3 * 48))
    for (const feed of feeds) t.deepEqual(feed, events)
    expectInOrder(t, events)
  },
)

test.serial('conflicts: hot rows are written through all nodes, and no write fails', async t => {
  const writers = nodes.map(writersOf)
  const rows = await Promise.all(
    Array.from({ length: 10 }, (_, n) => writers[0]?.insertOne({ first_name: 'many', last_name: `${n}` })),
  )
  const times: number[] = []
  const versions = new Map<number, Set<number>>()
  await Promise.all(
    Array.from({ length: 24 }, async (_, client) => {
      for (let n = 0; n < 15; n++) {
        const id = rows[(client * 7 + n) % rows.length]?.id ?? 0
        const startedMs = performance.now()
        const written = await writers[client % 3]?.update(id, { first_name: `${client} ${n}` })
        times.push(performance.now() - startedMs)
        if (typeof written !== 'object') throw new Error(`unexpected result ${written}`)
        versions.set(id, (versions.get(id) ?? new Set()).add(written.version))
      }
    }),
  )
  times.sort((one, other) => one - other)
  t.log(
    `p50 ${times[180]?.toFixed()} ms, p99 ${times[356]?.toFixed()} ms, longest ${times.at(-1)?.toFixed()} ms`,
  )
  const stored =
    (await nodes[1]?.query('SELECT id, version FROM users WHERE id IN (?)', [[...versions.keys()]])) ?? []
  t.is(stored.length, rows.length)
  for (const { id, version } of stored) t.true(versions.get(Number(id))?.has(Number(version)))
  const [total] =
    (await nodes[2]?.query(
      `SELECT (SELECT COUNT(*) FROM users) AS rows_there, (SELECT COALESCE(SUM(amount), 0) FROM counts WHERE kind = 'users')
        + (SELECT COALESCE(SUM(amount), 0) FROM count_changes WHERE kind = 'users') AS counted`,
      [],
    )) ?? []
  t.is(Number(total?.counted), Number(total?.rows_there))
})

test.serial('conflicts: nothing remains of a transaction that another node has undone', async t => {
  await executeOn(first, 'CREATE TABLE undone (id INT PRIMARY KEY, amount INT NOT NULL)')
  await executeOn(first, 'INSERT INTO undone VALUES (1, 0)')
  const increment = 'UPDATE undone SET amount = amount + 1 WHERE id = 1'
  const [one, other] = nodes
  let conflicting: Promise<unknown> | undefined
  let tries = 0
  await one?.transaction(async trx => {
    tries++
    await trx.execute(increment, [])
    conflicting ??= other?.transaction(trx => trx.execute(increment, []))
    await conflicting
    await trx.execute('INSERT INTO undone VALUES (2, 1)', [])
  })
  t.true(tries > 1)
  const stored = await one?.query('SELECT id, amount FROM undone ORDER BY id', [])
  t.deepEqual(
    stored?.map(row => ({ ...row })),
    [
      { id: 1, amount: 2 },
      { id: 2, amount: 1 },
    ],
  )
  await executeOn(first, 'DROP TABLE undone')
})

test.serial('conflicts: a large group is deleted while other nodes change its members', async t => {
  const members = 8000
  const [node, ...others] = nodes
  if (node === undefined) throw new Error('no node')
  const ids: number[] = []
  for (let first = 0; first < members; first += 1000) {
    const names = Array.from({ length: 1000 }, (_, n) => ({
      first_name: 'member',
      last_name: `${first + n}`,
    }))
    for (const row of await writersOf(node).insertMany(names)) ids.push(row?.id ?? 0)
  }
  const { insertOne, remove } = createWriters(node, groups)
  const group = (await insertOne({ name: 'large' }))?.id ?? 0
  await node.transaction(async trx => {
    await trx.execute('INSERT INTO memberships (user_id, group_id) VALUES ?', [ids.map(id => [id, group])])
    await trx.execute('INSERT INTO counts (kind, slot, amount) VALUES (?)', [
      ['groups.members', group, members],
    ])
  })
  // The other nodes wait for these rows before their first change, and on a slow machine they would wait too long.
  const membersSql = `SELECT user_id FROM memberships WHERE group_id = ${group} LIMIT 1`
  for (const url of urls)
    await until(async () => {
      const rows = await executeOn(url, membersSql)
      return Array.isArray(rows) && rows.length > 0
    })
  let ended = false
  const changes = Array.from({ length: 6 }, async (_, client) => {
    const other = others[client % 2]
    for (let n = 0; !ended && other !== undefined; n++)
      await writersOf(other).update(ids[(client * 1301 + n * 7) % members] ?? 0, {
        first_name: `${client} ${n}`,
      })
  })
  const result = await remove(group).finally(() => (ended = true))
  await Promise.all(changes)
  t.is(result, 'removed')
  t.deepEqual(await node.query('SELECT user_id FROM memberships WHERE group_id = ?', [group]), [])
})

test.serial('health: fails while the database is outside its cluster, and recovers by itself', async t => {
  const service = await startService({
    database: last,
    config: { health: { databaseGraceMs: 1000 }, log: { level: 'info', requests: false } },
  })
  t.teardown(() => service.stop())
  const operator = createOperator(service)
  await operator.untilHealth('http', 200)
  const [user] = (await nodes[0]?.query('SELECT MIN(id) AS id FROM users', [])) ?? []
  const url = `${service.url}/v1/users/${user?.id}`
  const startedMs = performance.now()
  const [leave, join] = isMariadb
    ? [isolate(1), isolate(0)]
    : ['STOP GROUP_REPLICATION', 'START GROUP_REPLICATION']
  await executeOn(last, leave)
  await operator.untilHealth('http', 503)
  t.log(`the health check failed after ${(performance.now() - startedMs).toFixed()} ms`)
  for (let n = 0; n < 20; n++) t.is((await ask(url))?.status, 503)
  await executeOn(last, join)
  await operator.untilHealth('http', 200)
  t.is((await ask(url))?.status, 200)
  const lines = service.log().match(/"msg":"(database [^"]*|unavailable)"/g)
  t.deepEqual(lines, ['"msg":"database unreachable"', '"msg":"database reachable again"'])
})

/** Sends a POST. @returns its status, and the path of what it has created */
async function create(url: string, name: string) {
  const { status, headers } = await fetch(`${url}/v1/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ first_name: name, last_name: 'Lovelace' }),
  })
  return { status, path: headers.get('location') ?? '' }
}

test.serial('hosts: a node survives the loss of a database server, which comes back', async t => {
  const service = await startService({ database: allHosts })
  t.teardown(() => service.stop())
  t.is((await create(service.url, 'before')).status, 200)
  await cluster.servers[0]?.stop('SIGKILL')
  const startedMs = performance.now()
  let failed = 0
  while ((await create(service.url, `after ${failed}`)).status !== 200) failed++
  const elapsed = (performance.now() - startedMs).toFixed()
  t.log(`${failed} requests failed one after the other, writes after ${elapsed} ms`)
  await cluster.servers[0]?.start()
  const rows = await executeOn(
    first,
    waitForWrites(isMariadb),
    "SELECT first_name FROM users WHERE last_name = 'Lovelace' ORDER BY id",
  )
  t.like(rows, { 0: { first_name: 'before' }, length: 2 })
})

if (!isMariadb)
  test.serial(
    'hosts: nodes follow the primary of a group with one primary, and read what others write',
    async t => {
      const ids = await Promise.all(
        urls.map(async url => {
          const rows = await executeOn(url, 'SELECT @@server_uuid AS id')
          return Array.isArray(rows) && rows[0] !== undefined && 'id' in rows[0] ? String(rows[0].id) : ''
        }),
      )
      await executeOn(first, `SELECT group_replication_switch_to_single_primary_mode('${ids[0]}')`)
      const [writer, reader] = await Promise.all(
        Array.from({ length: 2 }, async () => {
          const service = await startService({
            database: allHosts,
            config: { log: { level: 'info', requests: false } },
          })
          t.teardown(() => service.stop())
          return service
        }),
      )
      if (writer === undefined || reader === undefined) return
      const stored: string[] = []
      const reads: Record<number, number> = {}
      let failed = 0
      let ended = false
      const clients = Array.from({ length: 8 }, async (_, client) => {
        for (let n = 0; !ended; n++) {
          const name = `primary ${client} ${n}`
          const { status, path } = await create(writer.url, name)
          if (status !== 200 && status !== 503) t.fail(`status ${status}`)
          if (status !== 200) {
            failed++
            continue
          }
          stored.push(name)
          const read = await fetch(`${reader.url}${path}`)
          reads[read.status] = (reads[read.status] ?? 0) + 1
        }
      })
      const untilStored = async (count: number) => {
        const before = stored.length
        await until(() => stored.length >= before + count)
      }
      await untilStored(100)
      for (const id of [...ids.slice(1), ids[0]]) {
        await executeOn(first, `SELECT group_replication_set_as_primary('${id}')`)
        await untilStored(200)
      }
      ended = true
      await Promise.all(clients)
      t.log(
        `${failed} × 503, ${stored.length} stored, reads through the other node: ${JSON.stringify(reads)}`,
      )
      t.is(reads[404], undefined)
      const rows = await executeOn(
        urls[1] ?? '',
        waitForWrites(isMariadb),
        "SELECT first_name FROM users WHERE first_name LIKE 'primary %'",
      )
      const names = new Set(Array.isArray(rows) ? rows.map(row => 'first_name' in row && row.first_name) : [])
      t.deepEqual(
        stored.filter(name => !names.has(name)),
        [],
      )
      for (const service of [writer, reader]) {
        const lines = service.logLines(/"msg":"(database|unavailable)/)
        t.true(lines.length < 60, lines.join('\n'))
      }
    },
  )
