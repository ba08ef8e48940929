// The write that the body of a POST asks for: one record, or a batch whose entries succeed or fail independently.
import { ApiError, throwFaults } from '../../core/api-error.ts'
import type { Transaction } from '../../database/transaction.ts'
import { batchText, entriesOf, failed, faultyEntry, notAnObject, type Outcome } from '../requests/batch.ts'
import { type Checked, isObject, type JsonObject } from '../requests/validation.ts'

/** The result of a POST that succeeded. */
export interface PostResult {
  readonly text: string
  readonly location?: string
  /** The opaque tag, without its quotes. */
  readonly etag?: string
}

/** The result for one valid record. */
export type Written = ApiError | (PostResult & Outcome)

export interface PostWork {
  readonly run: (trx?: Transaction) => Promise<PostResult>
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
      return written
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
    return { text: batchText(name, outcomes) }
  }
  return { run, canWrite: valid.length > 0 }
}
