// Migrations of a database that contains records, also after a crash, and the output of `npm run migrate`.
import test from 'ava'
import { createLog } from '../../src/core/log.ts'
import { up } from '../../src/database/migrations/002-counts.ts'
import { assertMigrated, migrate } from '../../src/database/migrator.ts'
import { openPool } from '../../src/database/pool.ts'
import { runNode } from '../support/run-to-end.ts'
import { createDatabase, startService } from '../support/service.ts'

const log = createLog('warn', 'test')

test('migration 002: existing records are counted once, also after a crash', async t => {
  const url = await createDatabase()
  const knex = openPool(url, { max: 2, acquireTimeoutMs: 5000, silenceTimeoutMs: 0 }, log)
  t.teardown(() => knex.destroy())
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

test('schema: code that is older than the schema demands is refused', async t => {
  const url = await createDatabase()
  const knex = openPool(url, { max: 2, acquireTimeoutMs: 5000, silenceTimeoutMs: 0 }, log)
  t.teardown(() => knex.destroy())
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
    name: 'SchemaError',
    message: /^the database needs version 999 of the code, and this is /,
  }
  await t.throwsAsync(assertMigrated(knex), refused)
  await t.throwsAsync(migrate(url, log), refused)
  const worker = await t.throwsAsync(startService({ database: url }))
  t.regex(
    worker?.message ?? '',
    /^the supervisor exited with 78:.*the database needs version 999 of the code/s,
  )
})

test('npm run migrate: says what a migration demands of a database in use', async t => {
  const url = await createDatabase()
  const knex = openPool(url, { max: 1, acquireTimeoutMs: 5000, silenceTimeoutMs: 0 }, log)
  t.teardown(() => knex.destroy())
  await knex('knex_migrations').where({ name: '002-counts' }).delete()
  const { stdout } = await runNode('dist/migrate.js', [], { ...process.env, DATABASE_URL: url })
  t.regex(stdout, /^users-api: applied 002-counts\nusers-api: 002-counts: .* stop all its processes, .*\n$/)
})

test('npm run migrate: prints its result, or the error with a remedy, in one line', async t => {
  const server = new URL(process.env.TEST_DATABASE_URL ?? '')
  const knex = openPool(server.href, { max: 1, acquireTimeoutMs: 5000, silenceTimeoutMs: 0 }, log)
  t.teardown(() => knex.destroy())
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
