// The people and groups that are measured with. The database makes them itself, so a million takes no longer than it must.
import { createConnection } from 'mysql2/promise'
import { SLOT_IDS } from '../../src/database/counting/counts.ts'

/** Groups that a tenth of all users are in, however many users there are. */
const divisions = 10
/** Groups of a fixed size: their number grows with the users. */
const usersPerTeam = 25
const firstNames = 50
const chunk = 100_000

const digits = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ')
/** A table of the numbers 0 to 99,999, as `n`. */
const numbers = `(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
  FROM ${['a', 'b', 'c', 'd', 'e'].map(name => `(${digits}) ${name}`).join(', ')}) numbers`

const version = 'FLOOR(1 + RAND() * POW(2, 52))'

// What the SQL below calls them, so that requests can ask for what is there.
export const firstName = (id: number): string => `Given${String(id % firstNames).padStart(2, '0')}`
export const lastName = (id: number): string => `Family${String(id).padStart(7, '0')}`
export const teamName = (id: number): string => `Team ${String(id).padStart(5, '0')}`
export const divisionName = (id: number): string => `Division ${id}`

/** How many of `users` share a first name, a team, a division; each has a last name of its own. */
export const sizes = (users: number) => ({
  perFirstName: users / firstNames,
  perTeam: 2 * usersPerTeam,
  perDivision: users / divisions,
})

/**
 * Fills a migrated, empty database: the ids are 1 to `users`; each user is in two teams of some 50 users and in one
 * division, a tenth of everybody.
 */
export async function populate(databaseUrl: string, users: number): Promise<void> {
  const teams = users / usersPerTeam
  const connection = await createConnection(databaseUrl)
  try {
    // The pairs are right by construction: checking each would only take time.
    await connection.query('SET SESSION foreign_key_checks = 0, unique_checks = 0')
    const inChunks = async (count: number, insert: string, columns: string) => {
      for (let first = 1; first <= count; first += chunk)
        await connection.query(
          `INSERT INTO ${insert} SELECT ${columns} FROM (SELECT n + ${first} AS id FROM ${numbers}) ids
           WHERE id <= ${count} ORDER BY id`,
        )
    }
    await inChunks(divisions, '`groups` (id, name, version)', `id, CONCAT('Division ', id), ${version}`)
    await inChunks(
      teams,
      '`groups` (id, name, version)',
      `id + ${divisions}, CONCAT('Team ', LPAD(id, 5, '0')), ${version}`,
    )
    await inChunks(
      users,
      'users (id, first_name, last_name, version)',
      `id, CONCAT('Given', LPAD(id % ${firstNames}, 2, '0')), CONCAT('Family', LPAD(id, 7, '0')), ${version}`,
    )
    const memberships = [
      `id % ${divisions} + 1`,
      `id % ${teams} + ${divisions + 1}`,
      `(id + 1) % ${teams} + ${divisions + 1}`,
    ]
    for (const group of memberships) await inChunks(users, 'memberships (user_id, group_id)', `id, ${group}`)
    // The service counts what it writes itself.
    for (const [kind, slot, table] of [
      ['users', `id DIV ${SLOT_IDS}`, 'users'],
      ['groups', `id DIV ${SLOT_IDS}`, '`groups`'],
      ['groups.members', 'group_id', 'memberships'],
    ])
      await connection.query(
        `INSERT INTO counts (kind, slot, amount) SELECT '${kind}', ${slot} AS slot, COUNT(*) FROM ${table} GROUP BY ${slot}`,
      )
    await connection.query('ANALYZE TABLE counts, users, `groups`, memberships')
  } finally {
    await connection.end()
  }
}
