// The version of a row: a random token, so that no restored backup and no second database ever repeats one.
import { randomUUID } from 'node:crypto'
import type { Knex } from 'knex'
import type { Resource } from '../model/resource.ts'

/**
 * A token of 52 random bits, exact as a JSON number and as BIGINT.
 * A counter would come back after a restore, and a cache or a client that still holds it would be wrong.
 */
export function newVersion(): number {
  // A UUID's random digits (RFC 9562, 5.4): Node makes many of them at a time, which asking for random bytes does not.
  const digits = randomUUID()
  return Number.parseInt(digits.slice(0, 1) + digits.slice(24), 16)
}

/** Whether a record in this version is the one that the client means to change. */
export type Precondition = (version: number) => boolean

/** Tells every cached include that holds a record of `resource` that it is out of date. */
export async function renewGeneration(trx: Knex.Transaction, { generation }: Resource): Promise<void> {
  if (generation !== undefined) await trx(generation).where({ id: 1 }).update({ token: newVersion() })
}
