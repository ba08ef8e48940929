// The write that the body of a POST asks for: one record, or a batch whose entries succeed or fail independently.
import { ApiError, Faults } from '../../core/api-error.ts'
import type { KeptAnswer } from '../../database/idempotency-keys.ts'
import type { Transaction } from '../../database/transaction.ts'
import { notAnObject } from '../errors.ts'
import { batchText, entriesOf, failed, MAX_FAULTS_OF_ENTRY, type Outcome } from '../requests/batch.ts'
import { isObject, type JsonObject } from '../requests/validation.ts'

/** How the records of a body are written. */
interface Writing<Fields, Result> {
  /** Returns the valid fields of a record. @param faults receives what is wrong with it */
  check(body: JsonObject, faults: Faults): Fields
  /** Returns one result for each record, in order. */
  write(records: readonly Fields[], trx?: Transaction): Promise<readonly Result[]>
  outcomeOf(result: Result): ApiError | Outcome
  /** Returns headers of the response to a single record; the ETag is without its quotes. */
  headersOf?(result: Result): { readonly location: string; readonly etag: string } | undefined
}

export interface PostWork {
  /** @throws ApiError if nothing was written */
  readonly run: (trx?: Transaction) => Promise<KeptAnswer>
  /** False if all entries of a batch are invalid. */
  readonly canWrite: boolean
}

/**
 * @param name the field of a batch
 * @throws ApiError with all faults of the body, except for those of single entries
 */
export function postWork<Fields extends JsonObject, Result>(
  body: JsonObject,
  name: string,
  maxEntries: number,
  { check, write, outcomeOf, headersOf }: Writing<Fields, Result>,
): PostWork {
  const nextOf = (results: Iterator<Result>): Result => {
    const { value, done } = results.next()
    if (done === true) throw new Error('a record of the body has no result')
    return value
  }
  const entries = entriesOf(body, name, maxEntries)
  if (entries === undefined) {
    const faults = new Faults()
    const values = check(body, faults)
    faults.throw()
    const run = async (trx?: Transaction) => {
      const result = nextOf((await write([values], trx)).values())
      const outcome = outcomeOf(result)
      if (outcome instanceof ApiError) throw outcome
      return { status: 200, location: null, etag: null, ...headersOf?.(result), body: outcome.text }
    }
    return { run, canWrite: true }
  }

  const checked = entries.map(entry => {
    if (!isObject(entry)) return { error: notAnObject('an entry') }
    const faults = new Faults(MAX_FAULTS_OF_ENTRY)
    const values = check(entry, faults)
    return { values, error: faults.error() }
  })
  const valid = checked.flatMap(({ values, error }) =>
    values !== undefined && error === undefined ? [values] : [],
  )
  const run = async (trx?: Transaction) => {
    const results = (await write(valid, trx)).values()
    const outcomes = checked.map(({ values, error }): Outcome => {
      const outcome = error ?? outcomeOf(nextOf(results))
      return outcome instanceof ApiError ? failed(outcome, values) : outcome
    })
    return { status: 200, location: null, etag: null, body: batchText(name, outcomes) }
  }
  return { run, canWrite: valid.length > 0 }
}
