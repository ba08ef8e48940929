// The collation that distinguishes case, accents and trailing spaces.
import type { Knex } from 'knex'

async function isMariadb(knex: Knex): Promise<boolean> {
  const [rows] = await knex.raw('SELECT version() AS version')
  return String(rows[0].version).includes('MariaDB')
}

/** Returns the binary NO PAD collation, whose name differs between MySQL and MariaDB. */
export const exactCollation = async (knex: Knex): Promise<string> =>
  (await isMariadb(knex)) ? 'utf8mb4_nopad_bin' : 'utf8mb4_0900_bin'
