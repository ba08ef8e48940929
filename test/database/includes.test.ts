// Includes are read in portions, and are complete whatever the sizes of the records are and whatever changes meanwhile.
import test from 'ava'
import { createCache } from '../../src/cache/cache.ts'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createIncludeSets } from '../../src/database/reading/include-sets.ts'
import { createIncludes, type Included, type Includes } from '../../src/database/reading/includes.ts'
import { createCompleteLoader } from '../../src/database/reading/record-loader.ts'
import { createRecords, type Records } from '../../src/database/reading/records.ts'
import { users } from '../../src/model/users.ts'
import { openDatabase } from '../support/open-database.ts'
import { relation } from '../support/relation.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'

const config = await loadConfig()
const log = createLog('warn', 'test')
const database = openDatabase({ url: await createTestDatabase() })
test.after.always(() => database.close())
const records = createRecords(database, users)
const includes = createIncludes(database, createCache({ ...config.cache, url: null }, log), users, relation)

// Two users are over the 5000 rows of a portion alone, the others together.
const groupCounts = [0, 1, 5001, 3, 2000, 2999, 1, 2, 0, 12_000, 1, 4999, 0]
const groupCount = Math.max(...groupCounts)
const ids = groupCounts.map((_, index) => index + 1)
const missingId = 5

const modify = (sql: string, values: readonly unknown[]) =>
  database.transaction(trx => trx.execute(sql, values))

test.before(async () => {
  const insert = (table: string, columns: string, rows: readonly unknown[]) =>
    modify(`INSERT INTO \`${table}\` (${columns}) VALUES ?`, [rows])
  const groupIds = Array.from({ length: groupCount }, (_, index) => index + 1)
  const groupsOf = (user: number) => groupIds.slice(0, groupCounts[user - 1])
  await insert(
    'users',
    'id, first_name, version',
    ids.map(id => [id, `${id}`, id]),
  )
  await insert(
    'groups',
    'id, name, version',
    groupIds.map(id => [id, `group ${id}`, id]),
  )
  const pairs = ids.flatMap(user => groupsOf(user).map(group => [user, group]))
  await insert('memberships', 'user_id, group_id', pairs)
})

/** Each record's included groups as `<number of groups>`, if they are the expected ones in order. */
const sizesOf = (included: readonly (Included | undefined)[]) =>
  included.map(one => {
    const groups: { id: number; name: string }[] = JSON.parse(one?.text ?? 'null')
    const isRight = groups.every(({ id, name }, index) => id === index + 1 && name === `group ${id}`)
    return isRight ? groups.length : 'wrong'
  })

test.serial('includes: every record has all its related records, in the order of the rows', async t => {
  const rows = (await records.read(ids)).sort((a, b) => b.id - a.id)
  const expected = groupCounts.toReversed()
  const texts: string[] = []
  t.deepEqual(sizesOf(await includes(rows, text => texts.push(text))), expected)
  // No text is incomplete: it would also be cached.
  t.is(texts.length, rows.length)
  t.deepEqual(sizesOf(await database.snapshot(trx => includes(rows, undefined, trx))), expected)
})

test.serial('includes: a caller can end the reading after any text', async t => {
  const rows = await records.read(ids)
  for (const read of [
    (onText: () => void) => includes(rows, onText),
    (onText: () => void) => database.snapshot(trx => includes(rows, onText, trx)),
  ]) {
    let texts = 0
    const error = await t.throwsAsync(
      read(() => {
        texts++
        if (texts === 3) throw new Error('enough')
      }),
    )
    t.is(error?.message, 'enough')
    t.is(texts, 3)
  }
  t.is(database.pool().used, 0)
})

test.serial('includes: a record that changed or was deleted after its row was read has no text', async t => {
  const rows = (await records.read(ids)).sort((a, b) => a.id - b.id)
  await modify('DELETE FROM memberships WHERE user_id = ?', [missingId])
  await modify('DELETE FROM users WHERE id = ?', [missingId])
  await modify('UPDATE users SET version = 99 WHERE id = 3', [])
  const texts = await includes(rows)
  t.deepEqual(
    rows.flatMap(({ id }, index) => (texts[index] === undefined ? [id] : [])),
    [3, missingId],
  )
})

/** Loads records while `change` runs between each read of their rows and that of their groups. */
async function loadWhile(change: (reads: number) => Promise<unknown>) {
  const reads: string[] = []
  const racing: Records = {
    ...records,
    async read(readIds, trx) {
      const rows = await records.read(readIds, trx)
      reads.push(trx === undefined ? 'round' : 'snapshot')
      await change(reads.length)
      return rows
    },
  }
  const loader = createCompleteLoader(database, racing, includes)
  const loads = await Promise.all([6, 4, 10, missingId].map(id => loader(id)))
  return { reads, loads, sizes: loads.map(load => load && JSON.parse(load.text).length) }
}

const rename = (name: string) => modify('UPDATE `groups` SET name = ? WHERE id = 4000', [name])

test.serial('includes: a load takes one round while groups change all the time', async t => {
  const [before] = await records.read([10])
  const { reads, loads, sizes } = await loadWhile(async () => {
    await rename('renamed')
    await modify('UPDATE group_generation SET token = token + 1', [])
  })
  t.deepEqual(reads, ['round'])
  t.deepEqual(sizes, [2999, 3, 12_000, undefined])
  t.regex(loads[2]?.text ?? '', /"id":4000,"name":"renamed"/)
  // The row has the generation of its groups, so that the ETag is that of the next read.
  const [after] = await records.read([10])
  t.not(after?.generation, before?.generation)
  t.deepEqual(loads[2]?.row, after)
})

test.serial(
  'includes: a load takes one round and a snapshot while the records change all the time',
  async t => {
    const { reads, loads, sizes } = await loadWhile(async number => {
      await rename(`renamed ${number}`)
      await modify('UPDATE users SET version = version + 1', [])
    })
    t.deepEqual(reads, ['round', 'snapshot'])
    t.deepEqual(sizes, [2999, 3, 12_000, undefined])
    // The snapshot does not see the rename that followed its read.
    t.regex(loads[2]?.text ?? '', /"id":4000,"name":"renamed 1"/)
  },
)

test.serial('includes: two relations count as read only if both were, with the same generation', async t => {
  const rows = await records.read([2, 4])
  let read: (Included | undefined)[] = rows.map(row => ({ row, text: '[]' }))
  const other: Includes = async () => read
  const both = new Map([
    ['groups', includes],
    ['others', other],
  ])
  const set = createIncludeSets(database, records, both)(['groups', 'others'])
  const isRead = async () => (await set.includes(rows)).map(one => one !== undefined)
  t.deepEqual(await isRead(), [true, true])
  const [first, last] = rows
  if (first === undefined || last === undefined) throw new Error('the rows are missing')
  read = [
    { row: first, text: '[]' },
    { row: { ...last, generation: -1 }, text: '[]' },
  ]
  t.deepEqual(await isRead(), [true, false])
  read = [undefined, { row: last, text: '[]' }]
  t.deepEqual(await isRead(), [false, true])
})
