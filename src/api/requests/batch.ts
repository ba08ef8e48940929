// Batches: several entries in one body. The response has one entry for each of them, in the same order.
import { ApiError, errorMeta, type Fault, Faults } from '../../core/api-error.ts'
import { isObject, type JsonObject } from '../../core/json-object.ts'
import { shortened } from '../../core/quoted.ts'
import type { Outcome } from '../../database/lane/outcome.ts'
import { notAnObject } from '../errors.ts'

/** How an entry succeeds. The response counts these entries in a member of `meta` with this name. */
export type Success = 'created' | 'updated' | 'deleted'

/** An entry of the response: its JSON text, and how it is counted. */
export interface ResponseEntry {
  readonly text: string
  readonly result: Success | 'unchanged' | 'failed'
}

/**
 * Returns the entries of a batch: the array in the field `name` of the body. Returns undefined if the body is not a batch.
 * @throws ApiError `invalid_batch` or `limit_exceeded`
 */
export function entriesOf(
  body: JsonObject,
  name: string,
  maxEntries: number,
): readonly unknown[] | undefined {
  if (!Object.hasOwn(body, name)) return undefined
  const entries: unknown = body[name]
  const faults = new Faults()
  const fault = (field: string, message: string, code: Fault['code'] = 'invalid_batch') =>
    faults.add(() => ({ field: shortened(field), code, message: `${shortened(field)}: ${message}` }))
  if (!Array.isArray(entries)) fault(name, 'must be an array')
  else if (entries.length === 0) fault(name, 'must have at least one entry')
  else if (entries.length > maxEntries)
    fault(name, `has ${entries.length} entries; at most ${maxEntries} are allowed`, 'limit_exceeded')
  for (const field of Object.keys(body))
    if (field !== name && field !== 'meta') fault(field, `is not allowed together with ${name}`)
  faults.throw()
  return Array.isArray(entries) ? entries : undefined
}

/** Returns the response to an entry that fails. @param fields the valid fields of the entry */
export function failed(error: ApiError, fields: JsonObject = {}): ResponseEntry {
  return { text: JSON.stringify({ ...fields, meta: errorMeta(error, 400) }), result: 'failed' }
}

/** The maximum number of faults listed for one entry. It is low, because a batch has many entries. */
export const MAX_FAULTS_OF_ENTRY = 10

/**
 * Validates the entries of a batch.
 * @param check returns the valid fields of an entry, and adds its faults
 * @param repeated returns what the response to an entry that fails repeats of its fields
 */
export function checkEntries<Fields>(
  entries: readonly unknown[],
  check: (entry: JsonObject, faults: Faults) => Fields,
  repeated: (fields: Fields) => JsonObject,
) {
  const valid: Fields[] = []
  const invalid: { readonly index: number; readonly response: ResponseEntry }[] = []
  for (const [index, entry] of entries.entries()) {
    if (!isObject(entry)) {
      invalid.push({ index, response: failed(notAnObject('an entry')) })
      continue
    }
    const faults = new Faults(MAX_FAULTS_OF_ENTRY)
    const fields = check(entry, faults)
    const error = faults.error()
    if (error === undefined) valid.push(fields)
    else invalid.push({ index, response: failed(error, repeated(fields)) })
  }
  return {
    /** The fields of the valid entries, in order. */
    valid,

    /**
     * Returns the responses to all entries, in order.
     * @param outcomes what was written for the valid entries
     * @param responseTo returns the response to a valid entry
     */
    responses(
      outcomes: readonly Outcome[],
      responseTo: (outcome: Outcome, fields: Fields) => ApiError | ResponseEntry,
    ): ResponseEntry[] {
      const responses = valid.map((fields, index) => {
        const response = responseTo(outcomes[index] ?? 'not_found', fields)
        return response instanceof ApiError ? failed(response, repeated(fields)) : response
      })
      // In ascending order: each one is inserted after all responses that precede it.
      for (const { index, response } of invalid) responses.splice(index, 0, response)
      return responses
    },
  }
}

/** Returns the response to an entry whose record, or membership, is deleted. */
export function deleted(id: number, message: string): ResponseEntry {
  return { text: JSON.stringify({ id, meta: { status: 200, message } }), result: 'deleted' }
}

/** Returns the response body of a batch, as JSON text. @param success what the response counts, beside the failures */
export function batchText(
  name: string,
  entries: readonly ResponseEntry[],
  success: Success = 'created',
): string {
  const count = (result: ResponseEntry['result']) => entries.filter(entry => entry.result === result).length
  const succeeded = count(success)
  const failures = count('failed')
  const message = `${succeeded} of ${entries.length} ${success}, ${failures} failed`
  const meta = { status: 200, message, [success]: succeeded, failed: failures }
  return `{"${name}":[${entries.map(({ text }) => text).join(',')}],"meta":${JSON.stringify(meta)}}`
}
