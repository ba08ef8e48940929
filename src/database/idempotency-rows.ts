// The rows of Idempotency-Keys: a transaction claims the keys of its writes, and saves the responses before its COMMIT. So the
// writes and the responses are committed together or not at all, even if the process or the node fails.
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import { raw } from 'mysql2'
import * as z from 'zod'
import { ApiError } from '../core/api-error.ts'
import { assertRowCount, isDuplicate, isLocked } from './driver-errors.ts'
import type { Result } from './lane/outcome.ts'
import type { Statements, Transaction } from './transaction.ts'

const savedResponse = z.object({
  status: z.number(),
  location: z.string().nullable(),
  /** The entity tag without quotes. */
  etag: z.string().nullable(),
  body: z.string(),
})

/** A response that can be replayed. */
export type SavedResponse = Readonly<z.output<typeof savedResponse>>

/** A committed row. */
const savedRow = savedResponse.extend({
  idempotency_key: z.string(),
  fingerprint: z.string(),
  /** The whole response, compressed, or null. */
  packed: z.instanceof(Buffer).nullable(),
  /** 1 or 0. */
  expired: z.number(),
})

export type SavedRow = z.output<typeof savedRow>

/** A claim of a key. */
export interface Claim {
  readonly key: string
  /** Identifies the content of the request: a key is valid for one request only. */
  readonly fingerprint: string
  /** How long a row is valid. */
  readonly keepSeconds: number
}

/** A claim, and the response to save. */
export interface Receipt extends Claim {
  /**
   * Returns the response to a write with this result. If it is an error, the write must not have changed anything.
   * @throws ApiError if nothing is to be stored
   */
  responseOf(result: Result): SavedResponse
}

const table = 'idempotency_keys'
/** In UTF-16 units. It bounds what it costs to save and to replay a response. */
const MAX_BODY_LENGTH = 4 * 2 ** 20
/** The driver writes each byte as two hexadecimal digits. The packet of a server has at least 16 MiB. */
const MAX_PACKED_BYTES = 8_000_000
/**
 * Length in UTF-16 units of a body that is saved without compression. The response to a batch can be 100 times as
 * long as its request, but it repeats the messages of the entries. Compressed, it is about as long as the request.
 */
const MAX_PLAIN_LENGTH = 4096

// The index is forced, because the full scan of a small table would lock all of its rows.
const findSql = `SELECT idempotency_key, fingerprint, status, location, etag, body, packed,
    created_at < UTC_TIMESTAMP() - INTERVAL ? SECOND AS expired
  FROM ${table} FORCE INDEX (PRIMARY) WHERE idempotency_key IN (?)`
const claimSql = `INSERT INTO ${table} (idempotency_key, fingerprint, created_at) VALUES ?`
const saveSql = `INSERT INTO ${table} (idempotency_key, fingerprint, created_at, status, location, etag, body, packed) VALUES ?
  ON DUPLICATE KEY UPDATE status = VALUES(status), location = VALUES(location), etag = VALUES(etag), body = VALUES(body),
    packed = VALUES(packed)`
const deleteSql = `DELETE FROM ${table} WHERE idempotency_key = ?`
const MAX_DELETED_KEYS = 200
const deleteExpiredSql = `DELETE FROM ${table} WHERE created_at < UTC_TIMESTAMP() - INTERVAL ? SECOND
  ORDER BY created_at LIMIT ${MAX_DELETED_KEYS}`
const now = raw('UTC_TIMESTAMP()')

const responseTooLarge = () =>
  new ApiError(
    'limit_exceeded',
    'the response is too large to be saved for an Idempotency-Key; send a smaller request',
  )

/** @throws ApiError `limit_exceeded` */
async function pack(response: SavedResponse) {
  const { length } = response.body
  if (length <= MAX_PLAIN_LENGTH) return { ...response, packed: null }
  if (length > MAX_BODY_LENGTH) throw responseTooLarge()
  const packed = await promisify(deflateRaw)(JSON.stringify(response))
  if (packed.length > MAX_PACKED_BYTES) throw responseTooLarge()
  return { ...response, body: '', packed }
}

/** Returns the saved response. */
export async function unpack({ packed, status, location, etag, body }: SavedRow): Promise<SavedResponse> {
  if (packed === null) return { status, location, etag, body }
  return savedResponse.parse(JSON.parse(String(await promisify(inflateRaw)(packed))))
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

/** Reads rows by their keys. Without a lock, only committed rows are visible, which always have a response. */
async function find(on: Statements, keys: readonly string[], keepSeconds: number, lock = '') {
  const rows = await on.query(`${findSql} ${lock}`, [keepSeconds, keys])
  return z.array(savedRow).parse(rows)
}

/** Returns the row of a key that another request uses. @throws ApiError `request_in_progress` if there is none */
export async function findSaved(
  on: Statements,
  { key, keepSeconds }: Claim,
  cause?: unknown,
): Promise<SavedRow> {
  const [row] = await find(on, [key], keepSeconds)
  if (row?.expired === 0) return row
  throw requestInProgress(cause)
}

/**
 * Claims keys: inserts rows that this transaction keeps locked until its end.
 * @returns the saved rows of those keys that have one, by key
 * @throws ApiError `request_in_progress`, at once, if another transaction has locked or inserted one of the rows
 */
export async function claimKeys(
  trx: Transaction,
  claims: readonly Claim[],
): Promise<ReadonlyMap<string, SavedRow>> {
  const saved = new Map<string, SavedRow>()
  const [first] = claims
  if (first === undefined) return saved
  try {
    const keys = claims.map(({ key }) => key)
    for (const row of await find(trx, keys, first.keepSeconds, 'FOR UPDATE NOWAIT'))
      if (row.expired === 0) saved.set(row.idempotency_key, row)
      else await trx.execute(deleteSql, [row.idempotency_key])
    const free = claims.filter(({ key }) => !saved.has(key))
    if (free.length > 0)
      await trx.execute(claimSql, [free.map(({ key, fingerprint }) => [key, fingerprint, now])])
    return saved
  } catch (error) {
    throw isLocked(error) || isDuplicate(error) ? requestInProgress(error) : error
  }
}

/** Gives up keys that the transaction has claimed. */
export async function releaseKeys(trx: Transaction, claims: readonly Claim[]): Promise<void> {
  for (const { key } of claims) assertRowCount(table, await trx.execute(deleteSql, [key]), 1)
}

/** Saves the responses of keys that the transaction has claimed. @throws ApiError `limit_exceeded` */
export async function saveResponses(
  trx: Transaction,
  responses: readonly { readonly claim: Claim; readonly response: SavedResponse }[],
): Promise<void> {
  const isPlain = ({ response }: (typeof responses)[number]) => response.body.length <= MAX_PLAIN_LENGTH
  // Together, long responses could exceed the packet of the server: each has a statement of its own.
  const parts = [responses.filter(isPlain), ...responses.filter(one => !isPlain(one)).map(one => [one])]
  for (const part of parts) {
    if (part.length === 0) continue
    const rows = part.map(async ({ claim: { key, fingerprint }, response }) => {
      const { status, location, etag, body, packed } = await pack(response)
      return [key, fingerprint, now, status, location, etag, body, packed]
    })
    // A row that an INSERT updates counts twice.
    assertRowCount(table, await trx.execute(saveSql, [await Promise.all(rows)]), 2 * rows.length)
  }
}

/** Deletes some of the expired rows. @returns whether others may be left */
export async function deleteExpired(trx: Transaction, keepSeconds: number): Promise<boolean> {
  return (await trx.execute(deleteExpiredSql, [keepSeconds])).affectedRows === MAX_DELETED_KEYS
}
