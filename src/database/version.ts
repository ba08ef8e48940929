// Row versions: random tokens, which are unique across restored backups and several databases.
import { randomFillSync } from 'node:crypto'
import type { Knex } from 'knex'
import type { Resource } from '../model/resource.ts'
import type { Transaction } from './transaction.ts'

/** Random words, generated many at once: a call for a few bytes takes as long. */
const words = new Uint32Array(512)
let nextWord = words.length

function randomWord(): number {
  if (nextWord === words.length) {
    randomFillSync(words)
    nextWord = 0
  }
  return words[nextWord++] ?? 0
}

/**
 * Returns a token of 52 random bits, exact as a JSON number and as BIGINT. A counter would repeat values
 * after a restore, and caches and clients that hold an old value would be wrong.
 */
export const newVersion = (): number => (randomWord() >>> 12) * 2 ** 32 + randomWord()

/** Whether the current version of a record meets the precondition of the request. */
export type Precondition = (version: number) => boolean

/**
 * Returns the select list for the token of the resources that records of `resource` can include, as `generation`:
 * a change to one of the random tokens changes their XOR. It is empty if they can include none.
 */
export function generationColumns(knex: Knex, resource: Resource): Knex.Raw[] {
  const tables = new Set(resource.relations.map(({ to }) => to.generation))
  if (tables.size === 0) return []
  // Plain text: Knex would compile nested queries anew for each statement.
  const tokens = [...tables].map(table => `(${knex(table).select('token').toQuery()})`)
  return [knex.raw(`${tokens.join(' ^ ')} AS generation`)]
}

/** Invalidates all cached includes with records of a resource. @param table its `generation` */
export async function renewGeneration(trx: Transaction, table: string): Promise<void> {
  const sql = `INSERT INTO ${table} (id, token) VALUES (1, ?) ON DUPLICATE KEY UPDATE token = VALUES(token)`
  await trx.execute(sql, [newVersion()])
}
