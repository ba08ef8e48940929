// Fills a database with the users and groups for the benchmarks. INSERT … SELECT makes a million rows fast.
import { createConnection } from 'mysql2/promise'
import { BLOCK_IDS, SLOT_IDS } from '../../src/database/counting/counts.ts'

/** Number of groups that each contain a tenth of all users. */
const divisions = 10
/** Users per team, halved because each user is in two teams. The number of teams grows with the number of users. */
const usersPerTeam = 25
const firstNames = 50
const chunk = 100_000

const digits = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ')
/** A derived table with the numbers 0 to 99,999 as `n`. */
const numbers = `(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
  FROM ${['a', 'b', 'c', 'd', 'e'].map(name => `(${digits}) ${name}`).join(', ')}) numbers`

const version = 'FLOOR(1 + RAND() * POW(2, 52))'

// The names that the SQL below generates, for use in filters.
export const firstName = (id: number): string => `Given${String(id % firstNames).padStart(2, '0')}`
export const lastName = (id: number): string => `Family${String(id).padStart(8, '0')}`
export const teamName = (id: number): string => `Team ${String(id).padStart(6, '0')}`
export const divisionName = (id: number): string => `Division ${id}`

/** Number of users that share a first name, a team or a division. Last names are unique. */
export const sizes = (users: number) => ({
  perFirstName: users / firstNames,
  perTeam: 2 * usersPerTeam,
  perDivision: users / divisions,
})

/** The id of the group that contains all users. */
export const everyoneId = (users: number): number => divisions + users / usersPerTeam + 1

/** Adds a group of all users to a filled database. */
export async function addEveryone(databaseUrl: string, users: number): Promise<void> {
  const group = everyoneId(users)
  const connection = await createConnection(databaseUrl)
  try {
    await connection.query(`INSERT INTO \`groups\` (id, name, version) VALUES (?, 'Everyone', ${version})`, [
      group,
    ])
    await connection.query('INSERT INTO memberships (user_id, group_id) SELECT id, ? FROM users', [group])
    await connection.query("INSERT INTO counts (kind, slot, amount) VALUES ('groups', ?, 1)", [group])
    await connection.query(
      `INSERT INTO counts (kind, slot, block, amount)
       SELECT 'groups.members', ?, id DIV ${BLOCK_IDS} AS block, COUNT(*) FROM users GROUP BY block`,
      [group],
    )
  } finally {
    await connection.end()
  }
}

/**
 * Fills a migrated, empty database. The ids are 1 to `users`. Each user is in two teams of about 50 users and in one
 * division, which contains a tenth of all users.
 */
export async function populate(databaseUrl: string, users: number): Promise<void> {
  const teams = users / usersPerTeam
  const connection = await createConnection(databaseUrl)
  try {
    // The rows satisfy the constraints by construction; skipping the checks saves time.
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
      `id + ${divisions}, CONCAT('Team ', LPAD(id, 6, '0')), ${version}`,
    )
    await inChunks(
      users,
      'users (id, first_name, last_name, version)',
      `id, CONCAT('Given', LPAD(id % ${firstNames}, 2, '0')), CONCAT('Family', LPAD(id, 8, '0')), ${version}`,
    )
    const memberships = [
      `id % ${divisions} + 1`,
      `id % ${teams} + ${divisions + 1}`,
      `(id + 1) % ${teams} + ${divisions + 1}`,
    ]
    for (const group of memberships) await inChunks(users, 'memberships (user_id, group_id)', `id, ${group}`)
    // The service maintains the counts only for its own writes.
    for (const [kind, slot, block, table] of [
      ['users', `id DIV ${SLOT_IDS}`, 'NULL', 'users'],
      ['groups', `id DIV ${SLOT_IDS}`, 'NULL', '`groups`'],
      ['groups.members', 'group_id', `user_id DIV ${BLOCK_IDS}`, 'memberships'],
    ])
      await connection.query(
        `INSERT INTO counts (kind, slot, block, amount)
         SELECT '${kind}', ${slot} AS slot, COALESCE(${block}, 0) AS block, COUNT(*) FROM ${table} GROUP BY slot, block`,
      )
    await connection.query('ANALYZE TABLE counts, users, `groups`, memberships')
  } finally {
    await connection.end()
  }
}
