// The write that the body of a POST asks for: one record, or a batch whose entries succeed or fail independently.
import { ApiError, throwFaults } from '../../core/api-error.ts'
import type { KeptAnswer } from '../../database/idempotency-keys.ts'
import type { Transaction } from '../../database/transaction.ts'
import { batchText, entriesOf, failed, faultyEntry, notAnObject, type Outcome } from '../requests/batch.ts'
import { type Checked, isObject, type JsonObject } from '../requests/validation.ts'

/** The result for one valid record. The ETag is without its quotes. */
export type Written = ApiError | (Outcome & { readonly location?: string; readonly etag?: string })

export interface PostWork {
  /** @throws ApiError if nothing was written */
  readonly run: (trx?: Transaction) => Promise<KeptAnswer>
  /** False if all entries of a batch are invalid. */
  readonly canWrite: boolean
}

const noResult = () => new Error('a record of the body has no result')

/**
 * @param name the field of a batch
 * @param write writes valid records, and returns one result for each of them, in order
 * @throws ApiError with all faults of the body, except for those of single entries
 */
export function postWork<Values extends JsonObject>(
  body: JsonObject,
  name: string,
  maxEntries: number,
  check: (body: JsonObject) => Checked<Values>,
  write: (records: readonly Values[], trx?: Transaction) => Promise<readonly Written[]>,
): PostWork {
  const entries = entriesOf(body, name, maxEntries)
  if (entries === undefined) {
    const { values, faults } = check(body)
    throwFaults(faults)
    const run = async (trx?: Transaction) => {
      const [written] = await write([values], trx)
      if (written === undefined || written instanceof ApiError) throw written ?? noResult()
      const { text, location = null, etag = null } = written
      return { status: 200, location, etag, body: text }
    }
    return { run, canWrite: true }
  }

  const checked = entries.map(entry => (isObject(entry) ? check(entry) : undefined))
  const valid = checked.flatMap(entry => (entry?.faults.length === 0 ? [entry.values] : []))
  const run = async (trx?: Transaction) => {
    const results = (await write(valid, trx)).values()
    const outcomes = checked.map((entry): Outcome => {
      if (entry === undefined) return failed(notAnObject('an entry'))
      const [fault, ...faults] = entry.faults
      const written = fault === undefined ? results.next().value : faultyEntry([fault, ...faults])
      if (written === undefined) throw noResult()
      return written instanceof ApiError ? failed(written, entry.values) : written
    })
    return { status: 200, location: null, etag: null, body: batchText(name, outcomes) }
  }
  return { run, canWrite: valid.length > 0 }
}
