// Migrations of a database that contains records, also after a crash, and the output of `npm run migrate`.
import test, { type ExecutionContext } from 'ava'
import type { Knex } from 'knex'
import mysql from 'mysql2/promise'
import { migrateWhenUp } from '../../src/cli/preflight.ts'
import { createLog } from '../../src/core/log.ts'
import { underMigrationLock } from '../../src/database/migration-lock.ts'
import { up } from '../../src/database/migrations/002-counts.ts'
import { migrations } from '../../src/database/migrations/index.ts'
import { indexColumns } from '../../src/database/migrations/index-columns.ts'
import { addSearch } from '../../src/database/migrations/search-columns.ts'
import { assertMigrated, migrate } from '../../src/database/migrator.ts'
import { openPool } from '../../src/database/pool.ts'
import { searchColumn } from '../../src/database/reading/search.ts'
import { resources } from '../../src/model/index.ts'
import { executeOn } from '../support/execute.ts'
import { createClient } from '../support/http.ts'
import { openMysqlProxy } from '../support/mysql-proxy.ts'
import { runNode } from '../support/run-to-end.ts'
import { createDatabase, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const log = createLog('warn', 'test')

/** Opens the database at `url` until the end of the test. */
function open(t: ExecutionContext, url: string): Knex {
  const knex = openPool(url, { max: 3, acquireTimeoutMs: 5000, silenceTimeoutMs: 0 }, log)
  t.teardown(() => knex.destroy())
  return knex
}

test('migration 002: existing records are counted once, also after a crash', async t => {
  const url = await createDatabase()
  const knex = open(t, url)
  await knex('users').insert([1, 2, 2047, 2048, 9999].map(id => ({ id, first_name: `${id}`, version: id })))
  await knex('groups').insert([1, 2].map(id => ({ id, name: `${id}`, version: id })))
  await knex('memberships').insert([1, 2, 9999].map(user_id => ({ user_id, group_id: 2 })))
  // The state after a crash at the end: all steps are done, but the migration is not recorded.
  await knex('knex_migrations').where({ name: '002-counts' }).delete()
  await knex('count_changes').insert({ kind: 'users', slot: 0, amount: 7 })
  t.deepEqual(await migrate(url, log), ['002-counts'])
  const counted = await knex('counts').orderBy(['kind', 'slot']).select('kind', 'slot', 'amount')
  t.deepEqual(
    counted.map(row => ({ ...row })),
    [
      { kind: 'groups', slot: 0, amount: 2 },
      { kind: 'groups.members', slot: 2, amount: 3 },
      { kind: 'users', slot: 0, amount: 3 },
      { kind: 'users', slot: 1, amount: 1 },
      { kind: 'users', slot: 4, amount: 1 },
    ],
  )
  t.deepEqual(await knex('count_changes'), [])
  await up(knex)
  t.deepEqual(
    (await knex('counts').sum('amount as all')).map(row => Number(row.all)),
    [10],
  )
})

test('migration 002: is repeated after a deadlock, and stores all counts or none', async t => {
  const direct = await createDatabase()
  const { url, arm, struck, proxy } = await openMysqlProxy(direct)
  t.teardown(() => proxy.close())
  await executeOn(
    direct,
    "DELETE FROM knex_migrations WHERE name = '002-counts'",
    "INSERT INTO counts (kind, slot, amount) VALUES ('users', 7, 1)",
  )
  const counts = () => open(t, direct)('counts').select('slot', 'amount')
  arm(/INSERT INTO counts/, { errno: 1114, sqlState: 'HY000' })
  await t.throwsAsync(migrate(url, log), { any: true, code: 'ER_RECORD_FILE_FULL' })
  t.like(await counts(), { 0: { slot: 7, amount: 1 }, length: 1 })
  arm(/INSERT INTO counts/, { errno: 1213, sqlState: '40001' })
  t.deepEqual(await migrate(url, log), ['002-counts'])
  t.is(struck(), 1)
  t.deepEqual(await counts(), [])
})

test('schema: code that is older than the schema demands is refused', async t => {
  const url = await createDatabase()
  const knex = open(t, url)
  const env = { ...process.env, DATABASE_URL: url, NODE_ENV: 'test' }
  // A newer schema that demands no newer code is accepted.
  await knex('knex_migrations').insert({
    name: '999-of-a-later-version',
    batch: 9,
    migration_time: new Date(),
  })
  await assertMigrated(knex)
  t.like(await runNode('dist/migrate.js', [], env), {
    code: 0,
    stdout: 'users-api: the database is up to date\n',
  })

  await knex('schema_info').update({ min_code_version: 999 })
  const refused = {
    name: 'FatalError',
    message: /^the database needs version 999 of the code, and this is /,
  }
  await t.throwsAsync(assertMigrated(knex), refused)
  await t.throwsAsync(migrate(url, log), refused)
  t.is((await runNode('dist/recount.js', ['--check'], env)).code, 78)
  const worker = await t.throwsAsync(startService({ database: url }))
  t.regex(
    worker?.message ?? '',
    /^the supervisor exited with 78:.*the database needs version 999 of the code/s,
  )
})

test('migration 006: foreign keys of older databases lose ON DELETE CASCADE, also after a crash', async t => {
  const url = await createDatabase()
  const knex = open(t, url)
  await knex.raw(`ALTER TABLE memberships
    DROP FOREIGN KEY memberships_user_id, DROP FOREIGN KEY memberships_group_id`)
  await knex.raw(`ALTER TABLE memberships
    ADD CONSTRAINT memberships_user FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    ADD CONSTRAINT memberships_group FOREIGN KEY (group_id) REFERENCES \`groups\` (id) ON DELETE CASCADE`)
  await knex('users').insert({ id: 1, version: 1 })
  await knex('groups').insert({ id: 1, name: 'one', version: 1 })
  await knex('memberships').insert({ user_id: 1, group_id: 1 })
  for (let run = 0; run < 2; run++) {
    await knex('knex_migrations').where({ name: '006-no-cascades' }).delete()
    t.deepEqual(await migrate(url, log), ['006-no-cascades'])
    const [keys] = await knex.raw(`
      SELECT constraint_name AS name, delete_rule AS rule FROM information_schema.referential_constraints
      WHERE constraint_schema = DATABASE() AND table_name = 'memberships' ORDER BY name`)
    t.deepEqual(
      keys.map(({ name, rule }: { name: string; rule: string }) => [
        name,
        rule.replace('NO ACTION', 'RESTRICT'),
      ]),
      [
        ['memberships_group_id', 'RESTRICT'],
        ['memberships_user_id', 'RESTRICT'],
      ],
    )
  }
  await t.throwsAsync(knex('users').delete(), { any: true, code: 'ER_ROW_IS_REFERENCED_2' })
  await t.throwsAsync(knex('memberships').insert({ user_id: 1, group_id: 2 }), {
    any: true,
    code: 'ER_NO_REFERENCED_ROW_2',
  })
})

test('migration 009: the search is added while the service writes, also after a crash', async t => {
  const url = await createDatabase()
  await executeOn(url, 'ALTER TABLE users DROP KEY users_last_name_search, DROP KEY users_first_name_search')
  await executeOn(url, 'ALTER TABLE users DROP COLUMN last_name_search')
  const service = await startService({ database: url })
  t.teardown(() => service.stop())
  const client = createClient(service.url)
  t.teardown(client.close)
  await executeOn(url, "DELETE FROM knex_migrations WHERE name = '009-search'")
  const migrating = migrate(url, log)
  const created = Array.from({ length: 20 }, (_, index) =>
    client.post('/v1/users', { first_name: 'Émile', last_name: `Number ${index}` }),
  )
  t.deepEqual(await migrating, ['009-search'])
  for (const { status } of await Promise.all(created)) t.is(status, 200)
  const found = await client.get('/v1/users?search=number+emile')
  t.is(found.body.meta.total_records, 20)
})

test('migration 009: a column or an index that a statement of an interrupted run has added meanwhile', async t => {
  const database = await createDatabase()
  const { url, arm, struck, proxy } = await openMysqlProxy(database)
  t.teardown(() => proxy.close())
  for (const [errno, statement] of [
    [1060, /ADD COLUMN `name_search`/],
    [1061, /ADD KEY `groups_name_search`/],
  ] as const) {
    await executeOn(
      database,
      "DELETE FROM knex_migrations WHERE name = '009-search'",
      'ALTER TABLE `groups` DROP KEY groups_name_search, DROP COLUMN name_search',
    )
    // The repetition finds what is there: here, nothing.
    arm(statement, { errno, sqlState: '42S21' })
    t.deepEqual(await migrate(url, log), ['009-search'])
    t.is(struck(), 1)
  }
})

/** Asserts that each field has an index of the search, which begins with its column and has those of all fields. */
async function expectSearchIndexes(
  t: ExecutionContext,
  knex: Knex,
  table: string,
  fields: readonly string[],
): Promise<void> {
  const columns = fields.map(searchColumn)
  for (const [at, column] of columns.entries()) {
    const index = `${table}_${column}`
    t.deepEqual(await indexColumns(knex, table, index), [column, ...columns.toSpliced(at, 1)], index)
  }
}

test('migrations: each field has its column of the search and an index, which has the columns of all fields', async t => {
  const knex = open(t, await createDatabase())
  for (const { plural, fields, unique } of resources) {
    t.deepEqual(await indexColumns(knex, plural, [plural, ...unique].join('_')), [...unique])
    await expectSearchIndexes(t, knex, plural, Object.keys(fields))
  }
})

test('migrations: the indexes of the search get the column of a new field, also after a crash', async t => {
  const knex = open(t, await createDatabase())
  const fields = ['first_name', 'last_name', 'added']
  await knex.raw('ALTER TABLE users ADD COLUMN added VARCHAR(255) NULL')
  await addSearch(knex, 'users', fields)
  await expectSearchIndexes(t, knex, 'users', fields)
  // After a crash, only the first index has the new column.
  await knex.raw(`ALTER TABLE users DROP KEY users_added_search, DROP KEY users_last_name_search,
    ADD KEY users_last_name_search (last_name_search, first_name_search)`)
  await addSearch(knex, 'users', fields)
  await expectSearchIndexes(t, knex, 'users', fields)
})

test('migrations: several processes at once apply each migration once', async t => {
  const url = new URL(await createDatabase())
  url.pathname = '/for_several_nodes'
  const results = await Promise.all([1, 2, 3].map(() => migrate(url.href, log)))
  t.deepEqual(
    results.filter(applied => applied.length > 0),
    [migrations.map(({ name }) => name)],
  )
})

test('migrations: a new database stays one that no earlier version has used if its first run is interrupted', async t => {
  const { url: through, arm, proxy } = await openMysqlProxy(await createDatabase())
  t.teardown(() => proxy.close())
  const url = Object.assign(new URL(through), { pathname: '/interrupted' }).href
  arm(/CREATE TABLE IF NOT EXISTS counts/, 'cut before')
  await t.throwsAsync(migrate(url, log))
  const notices: string[] = []
  t.true((await migrate(url, log, notice => notices.push(notice))).length < migrations.length)
  t.deepEqual(notices, [])
  t.like(await open(t, url)('schema_info').first(), { min_code_version: 9 })
})

test('migrations: the lock of a process that is gone is taken over', async t => {
  const url = await createDatabase()
  const knex = open(t, url)
  await knex('migration_lock').update({ holder: 'gone' })
  await knex('knex_migrations').where({ name: '006-no-cascades' }).delete()
  const startedMs = performance.now()
  const notices: string[] = []
  t.deepEqual(await migrate(url, log, notice => notices.push(notice)), ['006-no-cascades'])
  t.deepEqual(notices, ['another process migrates the database: waiting until it has finished'])
  t.true(performance.now() - startedMs > 5000)
  t.like(await knex('migration_lock').first(), { holder: '' })
})

test('migrations: of two processes that wait for one that is gone, one takes its lock over, and the other waits for it', async t => {
  const knex = open(t, await createDatabase())
  await knex('migration_lock').update({ holder: 'gone' })
  const renewals = async () => Number((await knex('migration_lock').first('renewals')).renewals)
  let running = 0
  const run = () =>
    underMigrationLock(knex, async assertHeld => {
      t.is(++running, 1)
      // It renews its lock every second, and the other one polls twice as often.
      const end = (await renewals()) + 3
      await until(async () => (await renewals()) >= end)
      await assertHeld()
      running--
    })
  await Promise.all([run(), run()])
  t.like(await knex('migration_lock').first(), { holder: '' })
})

test('migrations: a process that keeps its lock is waited for, one that has lost it stops', async t => {
  const url = await createDatabase()
  const knex = open(t, url)
  await knex('knex_migrations').where({ name: '006-no-cascades' }).delete()
  let second: Promise<string[]> | undefined
  await underMigrationLock(knex, async assertHeld => {
    second = migrate(url, log)
    // Another process takes a lock over that is not renewed for 10 s.
    const renewals = async () => Number((await knex('migration_lock').first('renewals')).renewals)
    const end = (await renewals()) + 13
    const renewed = until(async () => (await renewals()) >= end && 'still waiting')
    t.is(await Promise.race([second, renewed]), 'still waiting')
    await assertHeld()
    await knex('migration_lock').update({ holder: 'another' })
    await t.throwsAsync(assertHeld(), { message: /another process has taken over/ })
    await knex('migration_lock').update({ holder: '' })
  })
  t.deepEqual(await second, ['006-no-cascades'])
  // Without a pending migration, the lock is not needed.
  await knex('migration_lock').update({ holder: 'another' })
  t.deepEqual(await migrate(url, log), [])
  t.like(await knex('migration_lock').first(), { holder: 'another' })
})

test('migrate: creates a database whose name has any characters', async t => {
  const server = process.env.TEST_DATABASE_URL ?? ''
  for (const name of ['a.b', 'a`b?']) {
    const url = Object.assign(new URL(server), { pathname: `/${encodeURIComponent(name)}` }).href
    t.teardown(() => executeOn(server, `DROP DATABASE ${mysql.escapeId(name, true)}`))
    t.is((await migrate(url, log)).length, migrations.length)
    t.deepEqual(await migrate(url, log), [])
  }
})

test('migrate: a server whose default is the row format of older versions', async t => {
  const server = process.env.TEST_DATABASE_URL ?? ''
  const setFormat = (format: string) =>
    executeOn(server, `SET GLOBAL innodb_default_row_format = '${format}'`)
  t.teardown(async () => {
    await setFormat('dynamic')
    await executeOn(server, 'DROP DATABASE row_format')
  })
  await setFormat('compact')
  const { href } = Object.assign(new URL(server), { pathname: '/row_format' })
  t.is((await migrate(href, log)).length, migrations.length)
})

test('npm run migrate: needs the URL of a database', async t => {
  const { code, stderr } = await runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: '' })
  t.is(code, 78)
  t.regex(stderr, /^users-api: invalid settings: database\.url: is missing; set DATABASE_URL .*\n$/)
})

test('npm run migrate: says that the database is read-only', async t => {
  const { url, arm, proxy } = await openMysqlProxy(await createDatabase())
  t.teardown(() => proxy.close())
  arm(/START TRANSACTION READ WRITE/, { errno: 1290, sqlState: 'HY000' })
  const { code, stderr } = await runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: url })
  t.is(code, 1)
  t.regex(stderr, /^users-api: the database accepts no writes \(.*\): name a server that does .*\n$/)
})

test('npm run migrate and npm start: say what a migration demands of a database in use', async t => {
  const url = await createDatabase()
  const forget = ["DELETE FROM knex_migrations WHERE name = '002-counts'", 'DELETE FROM schema_info']
  await executeOn(url, ...forget)
  const { stdout } = await runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: url })
  t.regex(stdout, /^users-api: 002-counts: .* stop all its processes, .*\nusers-api: applied 002-counts\n$/)
  await executeOn(url, ...forget)
  const printed: string[] = []
  await migrateWhenUp(url, line => printed.push(line), { timeoutMs: 0 })
  t.like(printed, { 0: 'migrating the database', 2: 'migrated the database: 002-counts', length: 3 })
  t.regex(printed[1] ?? '', /^002-counts: .* stop all its processes, /)
})

test('npm run migrate: without the change feed, a database needs two commands after the upgrade', async t => {
  const url = await createDatabase()
  await executeOn(
    url,
    "DELETE FROM knex_migrations WHERE name = '008-changes'",
    'UPDATE schema_info SET min_code_version = 2',
  )
  const { stdout } = await runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: url })
  t.regex(
    stdout,
    /^users-api: 008-changes: .*`npm run recount -- --upgraded`, .*`npm run expire-changes`, .*\nusers-api: applied 008-changes\n$/,
  )
})

test('npm run migrate: says what a migration demands although the next one fails', async t => {
  const database = await createDatabase()
  await executeOn(
    database,
    "DELETE FROM knex_migrations WHERE name IN ('008-changes', '009-search')",
    'UPDATE schema_info SET min_code_version = 2',
    'ALTER TABLE `groups` DROP KEY groups_name_search',
  )
  const { url, arm, proxy } = await openMysqlProxy(database)
  t.teardown(() => proxy.close())
  arm(/ADD KEY `groups_name_search`/, { errno: 1114, sqlState: 'HY000' })
  const run = () => runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: url })
  const failed = await run()
  t.is(failed.code, 1, failed.stderr)
  t.regex(failed.stdout, /^users-api: 008-changes: .*\n$/)
  t.like(await run(), { code: 0, stdout: 'users-api: applied 009-search\n' })
})

test('npm run migrate: names the privilege that a migration lacks', async t => {
  const server = process.env.TEST_DATABASE_URL ?? ''
  t.teardown(() => executeOn(server, 'DROP DATABASE for_privileges'))
  await executeOn(server, 'CREATE DATABASE for_privileges')
  for (const privilege of ['DELETE', 'ALTER']) {
    const user = `without_${privilege}`
    await executeOn(server, `CREATE USER ${user}@localhost`)
    await executeOn(server, `GRANT ALL ON for_privileges.* TO ${user}@localhost`)
    await executeOn(server, `REVOKE ${privilege} ON for_privileges.* FROM ${user}@localhost`)
    const { href } = Object.assign(new URL(server), { username: user, pathname: '/for_privileges' })
    const { code, stderr } = await runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: href })
    t.is(code, 1)
    t.regex(
      stderr,
      new RegExp(`^users-api: the database cannot be migrated \\(${privilege} command denied .*\\): .*\n$`),
    )
  }
})

test('npm run migrate: prints its result, or the error with a remedy, in one line', async t => {
  const server = new URL(process.env.TEST_DATABASE_URL ?? '')
  const knex = open(t, server.href)
  await knex.raw('CREATE DATABASE for_migrate')
  await knex.raw("CREATE USER restricted@localhost IDENTIFIED BY 'secret'")
  await knex.raw('GRANT SELECT ON for_migrate.* TO restricted@localhost')

  const migrateAs = (user: string, change: (url: URL) => void = () => {}) => {
    const url = new URL(server)
    url.username = user
    url.password = user === 'restricted' ? 'secret' : ''
    url.pathname = '/for_migrate'
    change(url)
    // In production, https ports need a certificate, but not for a migration.
    return runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: url.href, NODE_ENV: 'production' })
  }
  const refused =
    /^users-api: the database cannot be migrated \(\w+ (command )?denied .*\): correct DATABASE_URL, .*\n$/
  for (const user of ['restricted', 'unknown']) {
    const { code, stdout, stderr } = await migrateAs(user)
    t.deepEqual([code, stdout], [1, ''])
    t.regex(stderr, refused)
    t.notRegex(stderr, /create table|secret/i)
  }
  const away = await migrateAs('root', url => {
    url.search = ''
    url.port = '9'
  })
  t.deepEqual([away.code, away.stdout], [1, ''])
  t.regex(
    away.stderr,
    /^users-api: the database cannot be reached \(.*\): start it, or correct DATABASE_URL\n$/,
  )

  const done = await migrateAs('root')
  t.regex(done.stdout, /^users-api: applied 001-[^\n]*\n$/)
  t.like(await migrateAs('root'), { code: 0, stdout: 'users-api: the database is up to date\n' })
})
