// Batches: several entries in one body. The response has one outcome for each entry, in the same order.
import { type ApiError, errorMeta, type Fault, Faults, shortened } from '../../core/api-error.ts'
import type { JsonObject } from './validation.ts'

/** The outcome of one entry: its JSON text in the response, and how it is counted. */
export interface Outcome {
  readonly text: string
  readonly result: 'created' | 'unchanged' | 'failed'
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

/** Returns the outcome of a failed entry. @param fields the valid fields of the entry */
export function failed(error: ApiError, fields: JsonObject = {}): Outcome {
  return { text: JSON.stringify({ ...fields, meta: errorMeta(error, 400) }), result: 'failed' }
}

/** The maximum number of faults listed for one entry. It is low, because a batch has many entries. */
export const MAX_FAULTS_OF_ENTRY = 10

/** Returns the response body of a batch, as JSON text. */
export function batchText(name: string, outcomes: readonly Outcome[]): string {
  const count = (result: Outcome['result']) => outcomes.filter(outcome => outcome.result === result).length
  const created = count('created')
  const failures = count('failed')
  const message = `${created} of ${outcomes.length} created, ${failures} failed`
  const meta = { status: 200, message, created, failed: failures }
  return `{"${name}":[${outcomes.map(({ text }) => text).join(',')}],"meta":${JSON.stringify(meta)}}`
}
