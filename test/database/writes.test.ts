// Batched writes in a real database: each write has its own outcome, and the outcome agrees with the table.
import { randomBytes } from 'node:crypto'
import test from 'ava'
import fc from 'fast-check'
import type { Item } from '../../src/database/lane/writer.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { createInsert } from '../../src/database/writing/insert.ts'
import { createUpdate } from '../../src/database/writing/update.ts'
import { groups } from '../../src/model/groups.ts'
import { MAX_ID } from '../../src/model/resource.ts'
import type { Row } from '../../src/model/row.ts'
import { users } from '../../src/model/users.ts'
import { createGate } from '../support/gate.ts'
import { openDatabase } from '../support/open-database.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createWriters, origin, wrapApply } from '../support/writers.ts'

const url = await createTestDatabase()
const database = openDatabase({ url })
const writers = createWriters(database, users)
const records = createRecords(database, users)
test.after.always(() => database.close())

const namesOf = ({ first_name, last_name }: Record<string, unknown>) =>
  JSON.stringify([first_name, last_name])

// Few names, so that they collide.
const name = fc.constantFrom('a', 'A', 'b', 'b ', 'é')

test.serial('insert: concurrent inserts create one row per distinct pair and return its id', async t => {
  const entries = fc.array(fc.record({ first_name: name, last_name: name }), { maxLength: 30 })
  const property = fc.asyncProperty(entries, async pairs => {
    await database.knex('users').delete()
    const created = await Promise.all(pairs.map(pair => writers.insertOne(pair)))
    const inserted = created.filter(row => row !== undefined)
    t.deepEqual(inserted.map(namesOf).sort(), [...new Set(pairs.map(namesOf))].sort())
    const stored = await records.read(inserted.map(({ id }) => id).concat(0))
    t.deepEqual(
      new Map(stored.map(row => [row.id, namesOf(row)])),
      new Map(inserted.map(row => [row.id, namesOf(row)])),
    )
  })
  await fc.assert(property, { numRuns: 60 })
})

test.serial('insert: is refused if its id would not be exact as a JSON number', async t => {
  const last = { first_name: 'last', last_name: 'id' }
  await database.knex('users').insert({ id: MAX_ID, ...last, version: 1 })
  const pair = { first_name: 'beyond', last_name: 'it' }
  const writes = [() => writers.insertOne(pair), () => writers.insertMany([pair, last])]
  for (const write of writes) {
    await t.throwsAsync(write(), {
      message:
        'the next id of users is above 9007199254740991: delete the row with the highest id, and run ALTER TABLE `users` AUTO_INCREMENT = 1',
    })
    t.deepEqual(await database.knex('users').where(pair), [])
  }
  await database.knex('users').where(last).delete()
  await database.knex.raw('ALTER TABLE `users` AUTO_INCREMENT = 1')
  t.truthy(await writers.insertOne(pair))
})

test.serial(
  'insert: responses that are larger than a packet together are saved in one transaction',
  async t => {
    // 64 MiB in one transaction take MySQL longer than the time limit if the machine is busy.
    const patient = openDatabase({ url, queryTimeoutMs: 300_000 })
    t.teardown(() => patient.close())
    const body = randomBytes(3 * 2 ** 20).toString('base64')
    const [row] = await database.query('SELECT @@max_allowed_packet AS bytes', [])
    const transactions = new Set<unknown>()
    const { writeOnce } = createInsert(
      wrapApply(patient, (trx, apply) => {
        transactions.add(trx)
        return apply()
      }),
      users,
    )
    const keys = Array.from({ length: Math.ceil(Number(row?.bytes) / body.length) }, (_, index) => `${index}`)
    const receipt = (key: string) => ({
      key,
      fingerprint: 'request',
      keepSeconds: 60,
      responseOf: () => ({ status: 200, location: null, etag: null, body: key + body.slice(key.length) }),
    })
    const send = (key: string) =>
      writeOnce({ origin, entries: [{ first_name: 'long', last_name: key }] }, receipt(key))
    // An error would be printed with its statement.
    const sent = await Promise.allSettled(keys.map(send))
    t.true(sent.every(({ status }) => status === 'fulfilled'))
    t.is(transactions.size, 1)
    const saved = await send('1')
    t.true('fingerprint' in saved)
  },
)

test.serial('insert: is refused if its response, compressed, would exceed a packet of 16 MiB', async t => {
  const units = new Uint16Array(randomBytes(2 ** 23).buffer).map(unit => 0x800 + (unit % 0xd000))
  const body = Buffer.from(units.buffer).toString('utf16le')
  const entry = { first_name: 'long', last_name: 'response' }
  const receipt = {
    key: 'incompressible',
    fingerprint: 'request',
    keepSeconds: 60,
    responseOf: () => ({ status: 200, location: null, etag: null, body }),
  }
  const { writeOnce } = createInsert(database, users)
  const write = writeOnce({ origin, entries: [entry] }, receipt)
  await t.throwsAsync(write, { any: true, code: 'limit_exceeded' })
  t.deepEqual(await database.knex('users').where(entry), [])
})

test.serial(
  'update: after concurrent updates, each row has the values of its last successful update',
  async t => {
    const value = fc.oneof(name, fc.constant(null))
    const values = fc.record({ first_name: value, last_name: value }, { requiredKeys: [] })
    const change = fc.record({ which: fc.nat(6), values, conditional: fc.boolean() })
    const plan = fc.array(change, { minLength: 1, maxLength: 25 })
    const property = fc.asyncProperty(plan, async changes => {
      await database.knex('users').delete()
      const rows = await writers.insertMany(
        ['1', '2', '3', '4', '5'].map(last_name => ({ first_name: 'x', last_name })),
      )
      // Two of the seven ids do not exist.
      const ids = [...rows.map(row => row?.id ?? 0), 2 ** 53 - 1, 2 ** 53 - 2]
      const outcomes = await Promise.all(
        changes.map(({ which, values, conditional }) => {
          const read = rows[which]?.version
          return writers.update(
            ids[which] ?? 0,
            values,
            conditional ? version => version === read : undefined,
          )
        }),
      )
      const expected = new Map<number, Row>(rows.flatMap(row => (row === undefined ? [] : [[row.id, row]])))
      const changed = new Set<number>()
      for (const [index, { which, values, conditional }] of changes.entries()) {
        const outcome = outcomes[index]
        t.is(outcome === 'not_found', which > 4)
        t.is(outcome === 'precondition_failed', conditional && changed.has(which))
        if (typeof outcome !== 'object') continue
        t.like(outcome, { ...values, id: ids[which] ?? 0 })
        const before = expected.get(outcome.id)
        const isSame = Object.entries(values).every(([field, value]) => before?.[field] === value)
        t.is(outcome.version === before?.version, isSame, 'a new version for new values only')
        if (!isSame) changed.add(which)
        expected.set(outcome.id, outcome)
      }
      const stored = await records.read(ids)
      for (const row of stored) t.like(row, { version: expected.get(row.id)?.version ?? 0 }, namesOf(row))
      const complete = stored.filter(row => row.first_name !== null && row.last_name !== null).map(namesOf)
      t.is(new Set(complete).size, complete.length)
    })
    await fc.assert(property, { numRuns: 100 })
  },
)

test.serial(
  'update: a unique conflict changes no row and does not affect other updates of the batch',
  async t => {
    await database.knex('users').delete()
    const [one, two, three] = await writers.insertMany(
      ['1', '2', '3'].map(last_name => ({ first_name: 'x', last_name })),
    )
    const outcomes = await Promise.all([
      writers.update(one?.id ?? 0, { first_name: 'y' }),
      writers.update(two?.id ?? 0, { last_name: '3' }),
      writers.update(three?.id ?? 0, { first_name: 'z', last_name: null }),
    ])
    t.like(outcomes[0], { first_name: 'y', last_name: '1' })
    t.true(outcomes[1] === 'exists')
    t.like(outcomes[2], { first_name: 'z', last_name: null })
  },
)

/** Inserts twenty users and locks the third one in another transaction. */
async function lockThird() {
  await database.knex('users').delete()
  const rows = await writers.insertMany(
    Array.from({ length: 20 }, (_, index) => ({ first_name: 'x', last_name: `${index + 1}` })),
  )
  const ids = rows.map(row => row?.id ?? 0)
  const third = ids[2] ?? 0
  const locker = await database.knex.transaction()
  await locker('users').where({ id: third }).forUpdate()
  return { locker, third, others: ids.filter(id => id !== third) }
}

test.serial(
  'update: patches of one write are stored before those of a later one in the same transaction',
  async t => {
    const { write } = createUpdate(database, users)
    const create = async (last_name: string) =>
      (await writers.insertOne({ first_name: 'Swap', last_name }))?.id ?? 0
    const [a, b, c] = [await create('A'), await create('B'), await create('C')]
    const patch = (id: number, last_name: string) => ({ id, values: { last_name } })
    const [swap, single] = await Promise.all([
      write({ origin, patches: [patch(a, 'T'), patch(b, 'A'), patch(a, 'B')] }),
      write({ origin, patches: [patch(c, 'B')] }),
    ])
    t.like(swap, [{ changed: true }, { changed: true }, { changed: true }])
    t.deepEqual(single, ['exists'])
    const [through, later] = await Promise.all([
      write({ origin, patches: [patch(a, 'T'), patch(a, 'Z')] }),
      write({ origin, patches: [patch(c, 'T')] }),
    ])
    t.like(through, [{ changed: true }, { changed: true }])
    t.like(later, [{ changed: true }])
  },
)

test.serial(
  'update: a name that a later patch of the write frees is taken, in any order of the server',
  async t => {
    // The temporary table of a statement that updates rows is on disk then, and MySQL reads it in the order of their ids.
    const withTableOnDisk = wrapApply(database, async (trx, apply) => {
      await trx.execute('SET SESSION tmp_table_size = 16384', [])
      return apply().finally(() => trx.execute('SET SESSION tmp_table_size = DEFAULT', []))
    })
    const { write } = createUpdate(withTableOnDisk, users)
    const rows = await writers.insertMany(
      [1, 2].map(index => ({ first_name: 'Order', last_name: `${index}` })),
    )
    const [first = 0, second = 0] = rows.map(row => row?.id)
    const patch = (id: number, last_name: string) => ({ id, values: { last_name } })
    const item = { origin, patches: [patch(second, '1'), patch(first, '3')] }
    t.like(await write(item), ['exists', { changed: true }])
  },
)

test.serial('lane: writes of more than 200 keys leave connections to the others', async t => {
  const gate = createGate()
  let begun = 0
  const { write } = database.createWriter<Item & { readonly keys: readonly string[] }>({
    keysOf: ({ keys }) => keys,
    async apply(_trx, items) {
      begun++
      if (items.some(({ keys }) => keys.length > 200)) await gate.opened
      return items.map(() => 'not_found')
    },
  })
  const large = Array.from({ length: 20 }, (_one, number) =>
    write({ origin, keys: Array.from({ length: 201 }, (_key, index) => `large ${number} ${index}`) }),
  )
  t.is(await write({ origin, keys: ['small'] }), 'not_found')
  t.true(begun < large.length)
  gate.open()
  t.deepEqual(await Promise.all(large), Array(20).fill('not_found'))
})

test.serial('update: a locked row delays only updates of this row', async t => {
  const { locker, third, others } = await lockThird()
  const missingId = 2 ** 53 - 1
  const change = (id: number, first_name: string) => writers.update(id, { first_name })
  const waiting: ReturnType<typeof change>[] = []
  for (const first_name of ['y', 'z']) {
    waiting.push(change(third, first_name))
    const outcomes = others.map(id => change(id, first_name))
    t.is(await change(missingId, first_name), 'not_found')
    for (const outcome of await Promise.all(outcomes)) t.like(outcome, { first_name })
  }
  waiting.push(writers.update(third, { first_name: 'no' }, () => false))
  await locker.rollback()
  const [y, z, no] = await Promise.all(waiting)
  t.like(y, { first_name: 'y', last_name: '3' })
  t.like(z, { first_name: 'z', last_name: '3' })
  t.is(no, 'precondition_failed')
  const [stored] = await records.read([third])
  t.true([y, z].some(row => typeof row === 'object' && row.version === stored?.version))
  t.like(await change(third, 'unlocked'), { first_name: 'unlocked' })
})

test.serial('update: not_found if the row is deleted while the update waits for it', async t => {
  const { locker, third, others } = await lockThird()
  const waiting = writers.update(third, { first_name: 'y' })
  t.like(await writers.update(others[0] ?? 0, { first_name: 'y' }), { first_name: 'y' })
  await locker('users').where({ id: third }).delete()
  await locker.commit()
  t.is(await waiting, 'not_found')
})

test.serial('update: unavailable if a row stays locked for too long', async t => {
  const { locker, third } = await lockThird()
  const impatient = openDatabase({ url, queryTimeoutMs: 2500 }, { level: 'silent' })
  const { update } = createWriters(impatient, users)
  await t.throwsAsync(update(third, { first_name: 'y' }), { any: true, code: 'unavailable' })
  await locker.rollback()
  t.like(await update(third, { first_name: 'y' }), { first_name: 'y' })
  await impatient.close()
})

test.serial('update: updating most rows of a small table does not wait for the other rows', async t => {
  const { locker, others } = await lockThird()
  // An update that needs the locked row fails after the time limit.
  for (const row of await Promise.all(others.map(id => writers.update(id, { first_name: 'y' }))))
    t.like(row, { first_name: 'y' })
  await locker.rollback()
})

test.serial('generation: changes only if a group is updated or deleted', async t => {
  const groupWriters = createWriters(database, groups)
  const token = async () => (await database.knex('group_generation').first('token')).token
  const [one] = await groupWriters.insertMany([{ name: 'one' }, { name: 'two' }])
  const before = await token()
  t.is(await groupWriters.update(2 ** 53 - 1, { name: 'x' }), 'not_found')
  t.true((await groupWriters.update(one?.id ?? 0, { name: 'two' })) === 'exists')
  t.is(await groupWriters.update(one?.id ?? 0, { name: 'x' }, () => false), 'precondition_failed')
  t.is(await groupWriters.remove(2 ** 53 - 1), 'not_found')
  t.is(await groupWriters.remove(one?.id ?? 0, () => false), 'precondition_failed')
  t.is(await token(), before)
  await groupWriters.update(one?.id ?? 0, { name: 'uno' })
  const renamed = await token()
  t.not(renamed, before)
  t.is(await groupWriters.remove(one?.id ?? 0), 'removed')
  t.not(await token(), renamed)
})
