// What was answered to requests that carry an Idempotency-Key. The answer is stored with the write, in one transaction:
// it is there if and only if the write is, whichever process or node did it and whatever became of that afterwards.
import type { Knex } from 'knex'
import { ApiError } from '../core/api-error.ts'
import type { Database } from './database.ts'
import { isDuplicate, isLocked } from './driver-errors.ts'

/** An answer as it can be given again. */
export interface KeptAnswer {
  readonly status: number
  readonly location: string | null
  /** Without its quotes. */
  readonly etag: string | null
  readonly body: string
}

export interface IdempotencyKeys {
  /**
   * Runs `work`, whose answer is kept with what it writes, or gives the answer that is kept already. Where `work` answers
   * with a failure it must have written nothing; where it throws, neither writes nor answer stay.
   * @param fingerprint says what is asked for: a key stands for one request only
   * @throws ApiError `request_in_progress`, `idempotency_key_reused`, `limit_exceeded`
   */
  once(key: string, fingerprint: string, work: Work): Promise<KeptAnswer & { readonly replayed: boolean }>
  /** Removes the keys that are no longer kept; several processes may do so at once. */
  removeExpired(): Promise<void>
}

/** A row, complete. */
interface Kept extends KeptAnswer {
  readonly fingerprint: string
  /** 1 or 0. */
  readonly expired: number
}

type Work = (trx: Knex.Transaction) => Promise<KeptAnswer>

const table = 'idempotency_keys'
/** UTF-16 units: in every encoding within what a MEDIUMTEXT holds and a server takes as one packet, 16 MiB. */
const MAX_BODY = 4 * 2 ** 20
/** How many expired keys one transaction removes. */
const PORTION = 200

/** @param cause what the database said of the lock */
export const requestInProgress = (cause?: unknown) =>
  new ApiError(
    'request_in_progress',
    'a request with this Idempotency-Key is in progress, please try again',
    { headers: { 'Retry-After': '1' }, cause },
  )

export const keyReused = () =>
  new ApiError('idempotency_key_reused', 'this Idempotency-Key belongs to another request')

export function createIdempotencyKeys(database: Database, keepSeconds: number): IdempotencyKeys {
  const expired = (on: Knex) => on.raw('created_at < UTC_TIMESTAMP() - INTERVAL ? SECOND', [keepSeconds])

  /** Without a lock only what is committed is seen, and so complete. */
  async function find(trx: Knex.Transaction, key: string, locked: boolean): Promise<Kept | undefined> {
    const found = trx(table)
      .where({ idempotency_key: key })
      .first('fingerprint', 'status', 'location', 'etag', 'body', trx.raw('? AS expired', [expired(trx)]))
    return locked ? found.forUpdate().noWait() : found
  }

  /** Takes the key for this transaction, which holds its row until the end, if it can be had without waiting. */
  async function claim(trx: Knex.Transaction, key: string, fingerprint: string): Promise<Kept | undefined> {
    const kept = await find(trx, key, true)
    if (kept?.expired === 0) return kept
    if (kept !== undefined) await trx(table).where({ idempotency_key: key }).delete()
    await trx(table).insert({ idempotency_key: key, fingerprint, created_at: trx.raw('UTC_TIMESTAMP()') })
    return undefined
  }

  /** @returns the request and the answer that are kept under the key; undefined where it is now ours */
  async function keptOrClaimed(trx: Knex.Transaction, key: string, fingerprint: string) {
    try {
      return await claim(trx, key, fingerprint)
    } catch (error) {
      if (!isLocked(error) && !isDuplicate(error)) throw error
      // Somebody holds the row, be it only to read it as well, or was faster to make it.
      const kept = await find(trx, key, false)
      if (kept?.expired === 0) return kept
      throw requestInProgress(error)
    }
  }

  async function removePortion(trx: Knex.Transaction): Promise<number> {
    // What another process is removing, or a request is using again, is left to it.
    const keys: string[] = await trx(table)
      .where(expired(trx))
      .orderBy('created_at')
      .limit(PORTION)
      .forUpdate()
      .skipLocked()
      .pluck('idempotency_key')
    if (keys.length > 0) await trx(table).whereIn('idempotency_key', keys).delete()
    return keys.length
  }

  return {
    once: (key, fingerprint, work) =>
      database.transaction(async trx => {
        const kept = await keptOrClaimed(trx, key, fingerprint)
        if (kept !== undefined && kept.fingerprint !== fingerprint) throw keyReused()
        if (kept !== undefined) return { ...kept, replayed: true }
        const answer = await work(trx)
        if (answer.body.length > MAX_BODY)
          throw new ApiError(
            'limit_exceeded',
            'the answer would be too long to be kept for an Idempotency-Key',
          )
        await trx(table).where({ idempotency_key: key }).update(answer)
        return { ...answer, replayed: false }
      }),

    async removeExpired() {
      while ((await database.transaction(removePortion)) === PORTION);
    },
  }
}
