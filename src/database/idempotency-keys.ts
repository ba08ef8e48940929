// Stores the responses to requests with an Idempotency-Key. A response is saved in the same transaction as
// the write, so both are committed or neither is, even if the process or the node fails.
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import * as z from 'zod'
import { ApiError } from '../core/api-error.ts'
import type { Database } from './database.ts'
import { assertRowCount, isDuplicate, isLocked } from './driver-errors.ts'
import type { Statements, Transaction } from './transaction.ts'

const keptAnswer = z.object({
  status: z.number(),
  location: z.string().nullable(),
  /** The entity tag without quotes. */
  etag: z.string().nullable(),
  body: z.string(),
})

/** A response that can be replayed. */
export type KeptAnswer = Readonly<z.output<typeof keptAnswer>>

/** `replayed`: it was saved before. */
type ReplayableAnswer = KeptAnswer & { readonly replayed: boolean }

type WriteIn = (
  around: (trx: Transaction, write: () => Promise<KeptAnswer>) => Promise<ReplayableAnswer>,
) => Promise<ReplayableAnswer>

export type IdempotencyKeys = ReturnType<typeof createIdempotencyKeys>

/** A committed row. */
const savedKey = keptAnswer.extend({
  fingerprint: z.string(),
  /** The whole response, compressed, or null. */
  packed: z.instanceof(Buffer).nullable(),
  /** 1 or 0. */
  expired: z.number(),
})

type SavedKey = z.output<typeof savedKey>

const table = 'idempotency_keys'
/** In UTF-16 units. A response that does not compress at all is within the 16 MiB of MEDIUMBLOB and of a packet. */
const MAX_BODY_LENGTH = 4 * 2 ** 20
/**
 * Length in UTF-16 units of a body that is saved without compression. The response to a batch can be 100 times as
 * long as its request, but it repeats the messages of the entries. Compressed, it is about as long as the request.
 */
const MAX_PLAIN_LENGTH = 4096
const MAX_DELETED_KEYS = 200

const findSql = `SELECT fingerprint, status, location, etag, body, packed,
    created_at < UTC_TIMESTAMP() - INTERVAL ? SECOND AS expired
  FROM ${table} WHERE idempotency_key = ?`
const claimSql = `INSERT INTO ${table} (idempotency_key, fingerprint, created_at) VALUES (?, ?, UTC_TIMESTAMP())`
const saveSql = `UPDATE ${table} SET status = ?, location = ?, etag = ?, body = ?, packed = ?
  WHERE idempotency_key = ?`
const deleteSql = `DELETE FROM ${table} WHERE idempotency_key = ?`
const deleteExpiredSql = `DELETE FROM ${table} WHERE created_at < UTC_TIMESTAMP() - INTERVAL ? SECOND
  ORDER BY created_at LIMIT ${MAX_DELETED_KEYS}`

/** The columns that a version of the service without the column `packed` replays. */
const unreadable: KeptAnswer = {
  status: 503,
  location: null,
  etag: null,
  body: '{"meta":{"status":503,"message":"a newer version of the service has saved this response, please try again","code":"unavailable"}}',
}

async function pack(answer: KeptAnswer) {
  if (answer.body.length <= MAX_PLAIN_LENGTH) return { ...answer, packed: null }
  return { ...unreadable, packed: await promisify(deflateRaw)(JSON.stringify(answer)) }
}

async function unpack({ packed, status, location, etag, body }: SavedKey): Promise<KeptAnswer> {
  if (packed === null) return { status, location, etag, body }
  return keptAnswer.parse(JSON.parse(String(await promisify(inflateRaw)(packed))))
}

/** @param cause the database error about the lock */
export const requestInProgress = (cause?: unknown) =>
  new ApiError(
    'request_in_progress',
    'a request with this Idempotency-Key is in progress, please try again',
    { headers: { 'Retry-After': '1' }, cause },
  )

export const keyReused = () =>
  new ApiError('idempotency_key_reused', 'this Idempotency-Key was already used for a different request')

export function createIdempotencyKeys(database: Database, keepSeconds: number) {
  /** The keys of the requests of this process. */
  const inProgress = new Set<string>()

  /** Reads the row of a key. Without a lock, only committed rows are visible, which always have a response. */
  async function find(on: Statements, key: string, locked: boolean): Promise<SavedKey | undefined> {
    const [row] = await on.query(locked ? `${findSql} FOR UPDATE NOWAIT` : findSql, [keepSeconds, key])
    return savedKey.optional().parse(row)
  }

  /** Returns the saved row of a key that another request uses. @throws ApiError `request_in_progress` if there is none */
  async function findSaved(on: Statements, key: string, cause?: unknown): Promise<SavedKey> {
    const kept = await find(on, key, false)
    if (kept?.expired === 0) return kept
    throw requestInProgress(cause)
  }

  /** @throws ApiError `idempotency_key_reused` */
  async function replay(kept: SavedKey, fingerprint: string): Promise<ReplayableAnswer> {
    if (kept.fingerprint !== fingerprint) throw keyReused()
    return { ...(await unpack(kept)), replayed: true }
  }

  /**
   * Returns the saved row of the key, or inserts a row that this transaction keeps locked until its end.
   * @throws ApiError `request_in_progress`, at once, if another transaction has locked the row
   */
  async function findOrClaim(trx: Transaction, key: string, fingerprint: string) {
    try {
      const kept = await find(trx, key, true)
      if (kept?.expired === 0) return kept
      if (kept !== undefined) await trx.execute(deleteSql, [key])
      await trx.execute(claimSql, [key, fingerprint])
      return undefined
    } catch (error) {
      if (!isLocked(error) && !isDuplicate(error)) throw error
      // Another transaction has locked the row, possibly only to read it, or has inserted it first.
      return findSaved(trx, key, error)
    }
  }

  async function writeOrReplay(
    trx: Transaction,
    key: string,
    fingerprint: string,
    write: () => Promise<KeptAnswer>,
  ): Promise<ReplayableAnswer> {
    const kept = await findOrClaim(trx, key, fingerprint)
    if (kept !== undefined) return replay(kept, fingerprint)
    const response = await write()
    if (response.body.length > MAX_BODY_LENGTH)
      throw new ApiError(
        'limit_exceeded',
        'the response is too large to be saved for an Idempotency-Key; send a smaller request',
      )
    const { status, location, etag, body, packed } = await pack(response)
    assertRowCount(table, await trx.execute(saveSql, [status, location, etag, body, packed, key]), 1)
    return { ...response, replayed: false }
  }

  async function deleteExpired(trx: Transaction): Promise<number> {
    try {
      return (await trx.execute(deleteExpiredSql, [keepSeconds])).affectedRows
    } catch (error) {
      // A request that reuses one of the keys keeps it locked. The next call deletes the others.
      if (isLocked(error)) return 0
      throw error
    }
  }

  return {
    /**
     * Returns the saved response of the key, or writes and saves its response in the same transaction. If the write
     * returns an error response, it must not have written anything. If it throws, the transaction must be
     * rolled back, so that no response is saved.
     * @param fingerprint identifies the content of the request: a key is valid for one request only
     * @param writeIn calls its parameter in a transaction, with a function that writes
     * @throws ApiError `request_in_progress`, `idempotency_key_reused`, `limit_exceeded`
     */
    async once(key: string, fingerprint: string, writeIn: WriteIn): Promise<ReplayableAnswer> {
      // A write that needs a lock of another session claims its key only from time to time.
      if (inProgress.has(key)) return replay(await findSaved(database, key), fingerprint)
      inProgress.add(key)
      try {
        return await writeIn((trx, write) => writeOrReplay(trx, key, fingerprint, write))
      } finally {
        inProgress.delete(key)
      }
    },

    /** Deletes expired keys. Several processes can do this at the same time. */
    async removeExpired(): Promise<void> {
      while ((await database.transaction(deleteExpired)) === MAX_DELETED_KEYS);
    },
  }
}
