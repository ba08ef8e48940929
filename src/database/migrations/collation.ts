// The collation that tells apart all that differs: case, accents, trailing spaces.
import type { Knex } from 'knex'

/** MySQL and MariaDB each have one binary collation without padding, under different names. */
export async function exactCollation(knex: Knex): Promise<string> {
  const [rows] = await knex.raw('SELECT version() AS version')
  return String(rows[0].version).includes('MariaDB') ? 'utf8mb4_nopad_bin' : 'utf8mb4_0900_bin'
}
