// What was answered to requests that carry an Idempotency-Key. The answer is stored with the write, in one transaction:
// it is there if and only if the write is, whichever process or node did it and whatever became of that afterwards.
import type { Knex } from 'knex'
import { ApiError } from '../http/errors.ts'
import type { Database } from './database.ts'
import { isDuplicate, isLocked } from './failures.ts'

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

type Work = (trx: Knex.Transaction) => Promise<KeptAnswer>

const table = 'idempotency_keys'
/** UTF-16 units: in every encoding within what a MEDIUMTEXT holds and a server takes as one packet, 16 MiB. */
const LONGEST_BODY = 4 * 2 ** 20
/** How many expired keys one transaction removes. */
const PORTION = 200

const inProgress = (cause: unknown) =>
  new ApiError(
    'request_in_progress',
    'a request with this Idempotency-Key is in progress, please try again',
    {
      headers: { 'Retry-After': '1' },
      cause,
    },
  )

export function createIdempotencyKeys(database: Database, keepSeconds: number): IdempotencyKeys {
  const expired = (on: Knex) => on.raw('created_at < UTC_TIMESTAMP() - INTERVAL ? SECOND', [keepSeconds])

  /**
   * Takes the key for this transaction, which holds its row until the end. Never waits for another one that has it.
   * @returns the request and the answer that are kept under it
   */
  async function claim(trx: Knex.Transaction, key: string, fingerprint: string) {
    try {
      const kept: (KeptAnswer & { fingerprint: string; expired: number }) | undefined = await trx(table)
        .where({ idempotency_key: key })
        .forUpdate()
        .noWait()
        .first('fingerprint', 'status', 'location', 'etag', 'body', trx.raw('? AS expired', [expired(trx)]))
      if (kept?.expired === 0) return kept
      if (kept !== undefined) await trx(table).where({ idempotency_key: key }).delete()
      const created_at = trx.raw('UTC_TIMESTAMP()')
      await trx(table).insert({ idempotency_key: key, fingerprint, created_at })
      return undefined
    } catch (error) {
      // Somebody holds the row; or there was none yet, and somebody was faster to make it.
      if (isLocked(error) || isDuplicate(error)) throw inProgress(error)
      throw error
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
        const kept = await claim(trx, key, fingerprint)
        if (kept !== undefined && kept.fingerprint !== fingerprint)
          throw new ApiError('idempotency_key_reused', 'this Idempotency-Key belongs to another request')
        if (kept !== undefined) return { ...kept, replayed: true }
        const answer = await work(trx)
        if (answer.body.length > LONGEST_BODY)
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
