// The write that the body of a POST asks for: one record, or a batch whose entries succeed or fail independently.
import { ApiError, Faults } from '../../core/api-error.ts'
import type { JsonObject } from '../../core/json-object.ts'
import type { SavedResponse } from '../../database/idempotency-rows.ts'
import type { Outcome, Refusal, Result, Stored } from '../../database/lane/outcome.ts'
import type { Writer } from '../../database/lane/writer.ts'
import { batchText, checkEntries, entriesOf, type ResponseEntry } from '../requests/batch.ts'

/** How the records of a body are written. */
interface Writing<Fields, Item> {
  /** Returns the valid fields of a record. @param faults receives what is wrong with it */
  check(body: JsonObject, faults: Faults): Fields
  readonly writer: Writer<Item>
  itemOf(records: readonly Fields[]): Item
  /** Returns the response for a record. */
  responseTo(outcome: Outcome, record: Fields): ApiError | ResponseEntry
  /** Returns the error for a refusal of the whole write. */
  refused(refusal: Refusal): ApiError
  /** Returns headers of the response to a single record; the ETag is without its quotes. */
  headersOf?(stored: Stored): { readonly location: string; readonly etag: string }
}

/** A write, and the response to it. */
export interface PostWork<Item> {
  readonly writer: Writer<Item>
  readonly item: Item
  /** Returns the response to a write with this result. @throws ApiError if nothing was written */
  responseOf(result: Result): SavedResponse
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
  { check, writer, itemOf, responseTo, refused, headersOf }: Writing<Fields, Item>,
): PostWork<Item> {
  const work = (
    records: readonly Fields[],
    toResponse: (outcomes: readonly Outcome[]) => SavedResponse,
  ): PostWork<Item> => ({
    writer,
    item: itemOf(records),
    responseOf(result) {
      if (typeof result === 'string') throw refused(result)
      return toResponse(result)
    },
    hasRecords: records.length > 0,
  })

  const entries = entriesOf(body, name, maxEntries)
  if (entries === undefined) {
    const faults = new Faults()
    const values = check(body, faults)
    faults.throw()
    return work([values], ([outcome = 'not_found']) => {
      const response = responseTo(outcome, values)
      if (response instanceof ApiError) throw response
      const headers = typeof outcome === 'object' ? headersOf?.(outcome) : undefined
      return { status: 200, location: null, etag: null, body: response.text, ...headers }
    })
  }

  const { valid, responses } = checkEntries(entries, check, values => values)
  return work(valid, outcomes => {
    const body = batchText(name, responses(outcomes, responseTo))
    return { status: 200, location: null, etag: null, body }
  })
}
