// The write that the body of a POST asks for: one record, or a batch whose entries succeed or fail independently.
import { ApiError, Faults } from '../../core/api-error.ts'
import type { KeptAnswer } from '../../database/idempotency-keys.ts'
import type { Refusal, Result, Stored, Outcome as Written } from '../../database/lane/outcome.ts'
import type { Writer } from '../../database/lane/writer.ts'
import type { Transaction } from '../../database/transaction.ts'
import { batchText, checkEntries, entriesOf, type Outcome } from '../requests/batch.ts'
import type { JsonObject } from '../requests/validation.ts'

/** How the records of a body are written. */
interface Writing<Fields, Item> {
  /** Returns the valid fields of a record. @param faults receives what is wrong with it */
  check(body: JsonObject, faults: Faults): Fields
  readonly writer: Writer<Item>
  itemOf(records: readonly Fields[]): Item
  /** Returns the outcome of a record in the response. */
  outcomeOf(written: Written, record: Fields): ApiError | Outcome
  /** Returns the error for a refusal of the whole write. */
  refused(refusal: Refusal): ApiError
  /** Returns headers of the response to a single record; the ETag is without its quotes. */
  headersOf?(stored: Stored): { readonly location: string; readonly etag: string }
}

export interface PostWork {
  /** @throws ApiError if nothing was written */
  run(): Promise<KeptAnswer>
  /** Like `run`, in a transaction that `around` shares. @see Writer.writeIn */
  runIn<T>(around: (trx: Transaction, run: () => Promise<KeptAnswer>) => Promise<T>): Promise<T>
  /** False if all entries of a batch are invalid. */
  readonly hasRecords: boolean
}

/**
 * @param name the field of a batch
 * @throws ApiError with all faults of the body, except for those of single entries
 */
export function postWork<Fields extends JsonObject, Item>(
  body: JsonObject,
  name: string,
  maxEntries: number,
  { check, writer, itemOf, outcomeOf, refused, headersOf }: Writing<Fields, Item>,
): PostWork {
  /** @param answerOf returns the response; its parameter returns the outcome of the record with this index */
  function work(
    records: readonly Fields[],
    answerOf: (outcomeAt: (index: number) => Written) => KeptAnswer,
  ): PostWork {
    const item = itemOf(records)
    const answer = (result: Result): KeptAnswer => {
      if (typeof result === 'string') throw refused(result)
      return answerOf(index => {
        const outcome = result[index]
        if (outcome === undefined) throw new Error('a record of the body has no outcome')
        return outcome
      })
    }
    return {
      run: async () => answer(await writer.write(item)),
      runIn: around => writer.writeIn(item, (trx, write) => around(trx, async () => answer(await write()))),
      hasRecords: records.length > 0,
    }
  }

  const entries = entriesOf(body, name, maxEntries)
  if (entries === undefined) {
    const faults = new Faults()
    const values = check(body, faults)
    faults.throw()
    return work([values], outcomeAt => {
      const written = outcomeAt(0)
      const outcome = outcomeOf(written, values)
      if (outcome instanceof ApiError) throw outcome
      const headers = typeof written === 'object' ? headersOf?.(written) : undefined
      return { status: 200, location: null, etag: null, ...headers, body: outcome.text }
    })
  }

  const { valid, outcomes } = checkEntries(entries, check, values => values)
  return work(valid, outcomeAt => {
    const shown = outcomes((values, index) => outcomeOf(outcomeAt(index), values))
    return { status: 200, location: null, etag: null, body: batchText(name, shown) }
  })
}
