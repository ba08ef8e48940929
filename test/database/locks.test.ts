// Locks of another session: requests for a locked row or name wait, and all other requests go on.
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { reasonOf } from '../../src/core/error-reason.ts'
import type { Database } from '../../src/database/database.ts'
import type { Result } from '../../src/database/lane/outcome.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { createInsert } from '../../src/database/writing/insert.ts'
import { createMemberships } from '../../src/database/writing/memberships.ts'
import { createNames } from '../../src/database/writing/names.ts'
import { createRowLocks, skipLocked } from '../../src/database/writing/row-locks.ts'
import { createUpdate } from '../../src/database/writing/update.ts'
import { groups } from '../../src/model/groups.ts'
import { users } from '../../src/model/users.ts'
import { openDatabase } from '../support/open-database.ts'
import { allRecords } from '../support/pages.ts'
import { relation } from '../support/relation.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { sessionsOf } from '../support/sessions.ts'
import { atSteadyInterval } from '../support/steady-interval.ts'
import { until } from '../support/until.ts'
import { createMemberWriters, createWriters, origin, wrapApply } from '../support/writers.ts'

const url = await createTestDatabase()
// The time limits are longer than a slow machine needs. The server lets a transaction be idle for two of them.
const settings = { url, acquireTimeoutMs: 60_000, queryTimeoutMs: 60_000 }
const database = openDatabase(settings)
/** Another program on the same database. */
const foreign = openDatabase(settings)
const writers = createWriters(database, users)
const groupWriters = createWriters(database, groups)
const { write: updateGroups } = createUpdate(database, groups)
const memberships = createMemberWriters(database)
const records = createRecords(database, users)
const observer = await mysql.createConnection(url)
test.after.always(() => Promise.all([database.close(), foreign.close(), observer.end()]))

let sequence = 0
const person = () => ({ first_name: 'Other', last_name: `${++sequence}` })

async function createUser(): Promise<number> {
  const row = await writers.insertOne(person())
  if (row === undefined) throw new Error('the user exists already')
  return row.id
}

async function createGroup(): Promise<number> {
  const row = await groupWriters.insertOne({ name: `group ${++sequence}` })
  if (row === undefined) throw new Error('the group exists already')
  return row.id
}

/**
 * Asserts that reads and writes of other records, and `observe`, finish, for at least two seconds in which the lock is held.
 * It is held until they have: one that needs the lock fails after the time limit.
 */
async function assertOthersGoOn(
  t: ExecutionContext,
  group: number,
  observe: () => Promise<void>,
): Promise<void> {
  const endMs = performance.now() + 2000
  const repeat = (kind: string, act: () => Promise<unknown>) =>
    atSteadyInterval(10, async () => {
      await t.notThrowsAsync(act(), kind)
      return performance.now() >= endMs
    })
  const user = await createUser()
  await Promise.all([
    repeat('observe', observe),
    repeat('read', () => records.read([user])),
    repeat('page', () => records.page({ ...allRecords, recordsPerPage: 10 })),
    repeat('insert', createUser),
    repeat('insert many', () => writers.insertMany([person(), person()])),
    repeat('update', async () => t.like(await writers.update(user, person()), { id: user })),
    repeat('delete', async () => t.is(await writers.remove(await createUser()), 'removed')),
    repeat('membership', async () => {
      const member = await createUser()
      t.like(await memberships.add(member, [group]), [{ changed: true }])
      t.is(await memberships.remove(member, group), 'removed')
    }),
  ])
}

/** Runs `requests` while `hold` holds its locks, asserts that others and `observe` go on, and returns their outcomes. */
async function whileHeld<T>(
  t: ExecutionContext,
  hold: (sql: (text: string, values: (number | string)[]) => PromiseLike<unknown>) => PromiseLike<unknown>,
  requests: () => Promise<T>[],
  observe = async () => {},
): Promise<T[]> {
  const group = await createGroup()
  const trx = await foreign.knex.transaction()
  await hold((text, values) => trx.raw(text, values))
  let answered = 0
  const waiting = Promise.all(requests().map(request => request.finally(() => answered++)))
  try {
    await assertOthersGoOn(t, group, observe)
    t.is(answered, 0)
  } finally {
    await trx.rollback()
  }
  return waiting
}

function renameGroups(ids: readonly number[]): Promise<Result> {
  const patches = ids.map(id => ({ id, values: { name: `renamed ${++sequence}` } }))
  return updateGroups({ origin, patches })
}

const repeated = <T>(count: number, act: (index: number) => Promise<T>): Promise<T>[] =>
  Array.from({ length: count }, (_, index) => act(index))

test.serial('locks: a locked row delays only requests that change it', async t => {
  const held = await createUser()
  const [group, otherGroup] = [await createGroup(), await createGroup()]
  await memberships.add(held, [group])
  const outcomes = await whileHeld(
    t,
    sql => sql('SELECT id FROM users WHERE id = ? FOR UPDATE', [held]),
    () => [
      ...repeated<unknown>(20, () => memberships.add(held, [otherGroup])),
      ...repeated<unknown>(5, () => memberships.remove(held, group)),
      ...repeated<unknown>(5, index => writers.update(held, { first_name: `${index}` })),
    ],
  )
  const added: unknown[] = outcomes.filter(Array.isArray).flat()
  t.is(added.filter(one => JSON.stringify(one).includes('"changed":true')).length, 1)
  t.is(added.length, 20)
  t.is(outcomes.filter(outcome => outcome === 'removed').length, 1)
  t.is(outcomes.filter(outcome => outcome === 'membership_not_found').length, 4)
  t.deepEqual(
    outcomes.slice(25).map(outcome => typeof outcome),
    Array.from({ length: 5 }, () => 'object'),
  )
})

test.serial(
  'locks: sessions that share the lock of a row in turn do not pass a request that waits for it',
  async t => {
    const [group, other] = [await createGroup(), await createGroup()]
    const [user, member] = [await createUser(), await createUser()]
    const requests: [table: string, id: number, request: () => Promise<unknown>][] = [
      ['groups', group, () => groupWriters.update(group, { name: `renamed ${++sequence}` })],
      ['groups', group, () => renameGroups([other, group])],
      ['users', user, () => memberships.add(user, [group])],
      ['users', user, () => memberships.addMembers(other, [member, user])],
      ['groups', group, () => groupWriters.remove(group)],
    ]
    for (const [table, id, request] of requests) {
      const share = async () => {
        const trx = await foreign.knex.transaction()
        const [rows] = await trx.raw(`SELECT id FROM \`${table}\` WHERE id = ? ${skipLocked.share}`, [id])
        return { trx, isShared: rows.length > 0 }
      }
      const first = await share()
      t.true(first.isShared)
      const answer = request()
      const isPassed = async () => {
        const { trx, isShared } = await share()
        await trx.rollback()
        return isShared
      }
      await until(async () => !(await isPassed()))
      await first.trx.rollback()
      await answer
    }
  },
)

test.serial('locks: a write of several rows locks none behind a row of another session', async t => {
  const lockRows = createRowLocks(users, 'update')
  const [first, held, last] = [await createUser(), await createUser(), await createUser()]
  const ids = [last, held, first]
  const group = await createGroup()
  const writes: ((on: Database) => Promise<Result>)[] = [
    on => createUpdate(on, users).write({ origin, patches: ids.map(id => ({ id, values: person() })) }),
    on =>
      createMemberships(on, users, relation, 1000).write({
        origin,
        action: 'add',
        side: 'related',
        id: group,
        others: ids,
      }),
  ]
  for (const write of writes) {
    let written: Promise<Result> | undefined
    await foreign.transaction(async holder => {
      await lockRows(holder, [held])
      const isLastFree = await new Promise<boolean>(resolve => {
        const on = wrapApply(database, (_, apply) =>
          apply().catch(async error => {
            // Its transaction is still open.
            resolve((await lockRows(holder, [last])).rows.has(last))
            throw error
          }),
        )
        written = write(on)
      })
      t.true(isLastFree)
    })
    t.like(await written, [{ changed: true }, { changed: true }, { changed: true }])
  }
})

test.serial('locks: deletes of a locked row and additions to a locked group wait apart', async t => {
  const [held, member] = [await createUser(), await createUser()]
  const group = await createGroup()
  const outcomes = await whileHeld(
    t,
    async sql => {
      await sql('SELECT id FROM users WHERE id = ? FOR UPDATE', [held])
      await sql('SELECT id FROM `groups` WHERE id = ? FOR UPDATE', [group])
    },
    () => [
      ...repeated<unknown>(20, () => writers.remove(held)),
      ...repeated<unknown>(20, () => memberships.add(member, [group])),
    ],
  )
  t.is(outcomes.filter(outcome => outcome === 'removed').length, 1)
  t.is(outcomes.filter(outcome => outcome === 'not_found').length, 19)
  t.is(outcomes.filter(Array.isArray).length, 20)
})

/** Returns how many sessions wait for the lock of a row: all other statements skip locked rows. */
async function lockWaits(): Promise<number> {
  const sessions = await sessionsOf(url, observer)
  return sessions.filter(({ info }) => info?.endsWith(' FOR UPDATE')).length
}

test.serial('locks: of the writes that need locked rows, one at a time waits in the database', async t => {
  const heldUsers = await Promise.all(repeated(3, createUser))
  const heldGroups = await Promise.all(repeated(2, createGroup))
  const [renamedUser = 0, removedUser = 0, member = 0] = heldUsers
  const [renamedGroup = 0, removedGroup = 0] = heldGroups
  const joined = await createGroup()
  let mostWaits = 0
  await whileHeld<unknown>(
    t,
    async sql => {
      for (const id of heldUsers) await sql('SELECT id FROM users WHERE id = ? FOR UPDATE', [id])
      for (const id of heldGroups) await sql('SELECT id FROM `groups` WHERE id = ? FOR UPDATE', [id])
    },
    () => [
      writers.update(renamedUser, { first_name: 'Waits' }),
      writers.remove(removedUser),
      memberships.add(member, [joined]),
      groupWriters.update(renamedGroup, { name: `waits ${++sequence}` }),
      groupWriters.remove(removedGroup),
    ],
    async () => {
      // A write waits only for a second, and then the next one does.
      await until(async () => {
        mostWaits = Math.max(mostWaits, await lockWaits())
        return mostWaits > 0
      })
    },
  )
  t.is(mostWaits, 1)
})

test.serial('locks: a locked user and a locked group delay only the additions that need them', async t => {
  const [held, free] = [await createUser(), await createUser()]
  const [group, lockedGroup] = [await createGroup(), await createGroup()]
  const outcomes = await whileHeld(
    t,
    async sql => {
      await sql('SELECT id FROM users WHERE id = ? FOR UPDATE', [held])
      await sql('SELECT id FROM `groups` WHERE id = ? FOR UPDATE', [lockedGroup])
    },
    () => [
      memberships.addMembers(lockedGroup, []),
      ...repeated(10, () => memberships.addMembers(group, [free, held])),
      ...repeated(10, () => memberships.addMembers(lockedGroup, [free])),
    ],
  )
  const added = outcomes.flatMap(outcome => (Array.isArray(outcome) ? outcome : []))
  t.is(added.length, 30)
  t.is(added.filter(one => typeof one === 'object' && one.changed).length, 3)
})

test.serial('locks: an uncommitted name delays only requests for this name', async t => {
  const ids = await Promise.all(repeated(3, createUser))
  const name = { first_name: 'Held', last_name: 'Name' }
  const outcomes = await whileHeld(
    t,
    sql => sql('INSERT INTO users (first_name, last_name, version) VALUES (?, ?, ?)', ['Held', 'Name', 1]),
    () => [
      ...repeated(6, () => writers.insertOne({ ...name })),
      ...ids.map(id => writers.update(id, name)),
      ...repeated(3, async () => (await writers.insertMany([person(), name, person()]))[1]),
    ],
  )
  t.is(outcomes.filter(outcome => typeof outcome === 'object').length, 1)
  t.deepEqual(
    outcomes.filter(outcome => typeof outcome !== 'object').map(outcome => outcome ?? 'exists'),
    Array.from({ length: 11 }, () => 'exists'),
  )
})

test.serial('locks: the names that another session adds or removes are found', async t => {
  const { namesOf, heldItems } = createNames(database, users, 'update')
  const [added, removed, free] = [person(), person(), person()]
  await writers.insertMany([removed, free])
  await foreign.transaction(async trx => {
    await trx.execute('DELETE FROM users WHERE last_name = ?', [removed.last_name])
    const values = [added.first_name, added.last_name, 1]
    await trx.execute('INSERT INTO users (first_name, last_name, version) VALUES (?)', [values])
    const held = await heldItems([added, removed, free, person()], one => namesOf([one]))
    t.deepEqual([...held], [added, removed])
  })
})

test.serial(
  'locks: a write with an Idempotency-Key holds no lock of a record while it waits for one',
  async t => {
    const name = person()
    const before = await writers.insertOne(name)
    if (before === undefined) throw new Error('the user exists already')
    let looks = 0
    const { writeOnce } = createInsert(
      {
        ...database,
        createWriter: options =>
          database.createWriter({
            ...options,
            held(items) {
              looks++
              return options.held?.(items) ?? Promise.resolve(new Set())
            },
          }),
      },
      users,
    )
    let written: ReturnType<typeof writeOnce> | undefined
    await foreign.transaction(async trx => {
      await trx.query('SELECT id FROM users WHERE id = ? FOR UPDATE', [before.id])
      written = writeOnce(
        { origin, entries: [name] },
        {
          key: 'waits',
          fingerprint: 'request',
          keepSeconds: 60,
          responseOf: result => ({ status: 200, location: null, etag: null, body: JSON.stringify(result) }),
        },
      )
      // It waits in the transaction after that of its first try.
      await until(() => looks > 0)
      await trx.execute('DELETE FROM users WHERE id = ?', [before.id])
    })
    t.like(JSON.parse((await written)?.body ?? ''), [{ changed: true, row: name }])
  },
)

test.serial('locks: creates wait for the ids that an INSERT … SELECT of another session takes', async t => {
  const [holder, bulk] = [await foreign.knex.transaction(), await foreign.knex.transaction()]
  await holder('users').insert({ first_name: 'Bulk', last_name: 'held', version: 1 })
  const inserted = bulk
    .raw(
      `INSERT INTO users (first_name, last_name, version) SELECT 'Bulk', 'first', 1 UNION ALL SELECT 'Bulk', 'held', 2`,
    )
    .then(() => bulk.rollback())
  // It waits for the second name. Until it ends, MariaDB gives no id to others.
  await until(() =>
    foreign.uncommitted(async trx => {
      const rows = await trx.query(
        "SELECT id FROM users WHERE first_name = 'Bulk' AND last_name = 'first'",
        [],
      )
      return rows.length > 0
    }),
  )
  let tries = 0
  let answered = false
  const { insertOne } = createWriters(
    wrapApply(database, (_, apply) => {
      tries++
      return apply()
    }),
    users,
  )
  const created = Promise.all(repeated(3, () => insertOne(person()))).finally(() => {
    answered = true
  })
  await until(() => answered || tries > 3)
  await holder.rollback()
  await inserted
  t.true((await created).every(row => row !== undefined))
})

test.serial('locks: a lock that is held for too long is unavailable', async t => {
  const held = await createUser()
  const group = await createGroup()
  const impatient = openDatabase({ url, queryTimeoutMs: 2500 }, { level: 'silent' })
  const { update, remove, insertOne } = createWriters(impatient, users)
  const { add } = createMemberWriters(impatient)
  const trx = await foreign.knex.transaction()
  await trx('users').where({ id: held }).forUpdate()
  await trx('users').insert({ first_name: 'Held', last_name: 'long', version: 1 })
  await Promise.all(
    [
      ...repeated<unknown>(5, () => update(held, { first_name: 'x' })),
      ...repeated<unknown>(5, () => remove(held)),
      ...repeated<unknown>(5, () => add(held, [group])),
      ...repeated<unknown>(5, () => insertOne({ first_name: 'Held', last_name: 'long' })),
    ].map(async request => {
      const error = await t.throwsAsync(request, { any: true, code: 'unavailable' })
      // The reason is logged, so it contains no names.
      t.notRegex(reasonOf(error), /Held/)
    }),
  )
  await trx.rollback()
  t.is(await remove(held), 'removed')
  await impatient.close()
})
