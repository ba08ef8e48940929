// Stores the responses to requests with an Idempotency-Key, and replays them.
import { ApiError } from '../core/api-error.ts'
import type { Database } from './database.ts'
import {
  type Claim,
  deleteExpired,
  findSaved,
  keyReused,
  type SavedResponse,
  type SavedRow,
  unpack,
} from './idempotency-rows.ts'

/** `replayed`: it was saved before. */
type ReplayableResponse = SavedResponse & { readonly replayed: boolean }

export type IdempotencyKeys = ReturnType<typeof createIdempotencyKeys>

/** @throws ApiError `idempotency_key_reused` */
async function replay(row: SavedRow, { fingerprint }: Claim): Promise<ReplayableResponse> {
  if (row.fingerprint !== fingerprint) throw keyReused()
  return { ...(await unpack(row)), replayed: true }
}

export function createIdempotencyKeys(database: Database, keepSeconds: number) {
  /** The keys of the requests of this process. */
  const inProgress = new Set<string>()

  return {
    /**
     * Returns the saved response of the key, or writes and saves its response in the same transaction.
     * @param fingerprint identifies the content of the request: a key is valid for one request only
     * @param write claims the key and writes; it returns the saved row, or the response that it has saved
     * @throws ApiError `request_in_progress`, `idempotency_key_reused`, `limit_exceeded`
     */
    async once(
      key: string,
      fingerprint: string,
      write: (claim: Claim) => Promise<SavedRow | SavedResponse>,
    ): Promise<ReplayableResponse> {
      const claim = { key, fingerprint, keepSeconds }
      // A write that needs a lock of another session claims its key only from time to time.
      if (inProgress.has(key)) return replay(await findSaved(database, claim), claim)
      inProgress.add(key)
      try {
        const found = await write(claim)
        return 'fingerprint' in found ? await replay(found, claim) : { ...found, replayed: false }
      } catch (error) {
        if (!(error instanceof ApiError && error.code === 'request_in_progress')) throw error
        // Another transaction has locked the row, possibly only to read it, or has inserted it first.
        return await replay(await findSaved(database, claim, error.cause), claim)
      } finally {
        inProgress.delete(key)
      }
    },

    /** Deletes expired keys. Several processes can do this at the same time. */
    async removeExpired(): Promise<void> {
      while (await database.transaction(trx => deleteExpired(trx, keepSeconds)));
    },
  }
}
