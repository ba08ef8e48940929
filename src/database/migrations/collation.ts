// The collation that distinguishes case, accents and trailing spaces.
import type { Knex } from 'knex'

/** Returns the binary NO PAD collation, whose name differs between MySQL and MariaDB. */
export async function exactCollation(knex: Knex): Promise<string> {
  const [rows] = await knex.raw('SELECT version() AS version')
  return String(rows[0].version).includes('MariaDB') ? 'utf8mb4_nopad_bin' : 'utf8mb4_0900_bin'
}
