// Batches: many entries in one body, one outcome for each, in their order.
import { ApiError, errorMeta, type Fault, shortened, throwFaults } from '../../core/api-error.ts'
import type { JsonObject } from './validation.ts'

/** What became of an entry: its text in the response, and whether it counts as created or failed. */
export interface Outcome {
  readonly text: string
  readonly result: 'created' | 'unchanged' | 'failed'
}

/**
 * The entries of a batch, that is of a body with an array called `name`.
 * @returns undefined where the body is no batch
 * @throws ApiError `invalid_batch` or `limit_exceeded`
 */
export function entriesOf(body: JsonObject, name: string, most: number): readonly unknown[] | undefined {
  if (!Object.hasOwn(body, name)) return undefined
  const entries: unknown = body[name]
  const faults: Fault[] = []
  const fault = (field: string, message: string, code: Fault['code'] = 'invalid_batch') =>
    faults.push({ field, code, message: `${field}: ${message}` })
  if (!Array.isArray(entries)) fault(name, 'must be an array')
  else if (entries.length === 0) fault(name, 'must have at least one entry')
  else if (entries.length > most)
    fault(name, `has ${entries.length} entries, at most ${most} are allowed`, 'limit_exceeded')
  for (const field of Object.keys(body))
    if (field !== name && field !== 'meta') fault(shortened(field), `cannot stand beside ${name}`)
  throwFaults(faults)
  return Array.isArray(entries) ? entries : undefined
}

/** A failed entry. @param fields what is known of it, without its braces */
export function failed(error: ApiError, fields: JsonObject = {}): Outcome {
  return { text: JSON.stringify({ ...fields, meta: errorMeta(error, 400) }), result: 'failed' }
}

/** How many faults of each entry are listed: there are many entries. */
export const MAX_FAULTS_OF_ENTRY = 10

/** What is wrong with an entry. */
export const faultyEntry = (faults: readonly [Fault, ...Fault[]]) => ApiError.of(faults, MAX_FAULTS_OF_ENTRY)

export const notAnObject = (what: string) => new ApiError('invalid_body', `${what} must be an object`)

/** The response to a batch. */
export function batchText(name: string, outcomes: readonly Outcome[]): string {
  const count = (result: Outcome['result']) => outcomes.filter(outcome => outcome.result === result).length
  const created = count('created')
  const failures = count('failed')
  const message = `${created} of ${outcomes.length} created, ${failures} failed`
  const meta = { status: 200, message, created, failed: failures }
  return `{"${name}":[${outcomes.map(({ text }) => text).join(',')}],"meta":${JSON.stringify(meta)}}`
}
