// What can go wrong with an operation, as examples: thrown by the code that checks requests, wherever it can be asked.
import type { Config } from '../../config/config.ts'
import { ApiError, type Fault, throwFaults } from '../../core/api-error.ts'
import { keyReused, requestInProgress } from '../../database/idempotency-keys.ts'
import type { Resource } from '../../model/resource.ts'
import { entriesOf, notAnObject } from '../requests/batch.ts'
import { checkBody, checkReference, type JsonObject, type Mode } from '../requests/validation.ts'
import * as examples from './examples.ts'

/** The error that `work` throws. */
function thrownBy(work: () => unknown): ApiError {
  try {
    work()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('an example of a failure does not fail')
}

/** The first of each code. */
const distinct = (errors: readonly ApiError[]): ApiError[] =>
  [...new Map(errors.toReversed().map(error => [error.code, error])).values()].toReversed()

/** @param parse reads the parameters. @param wrong query strings that it refuses */
export function queryFailures(parse: (search: string) => unknown, ...wrong: readonly string[]): ApiError[] {
  return [
    new ApiError('malformed_request', 'the path is not percent-encoded UTF-8'),
    ...['colour=red', ...wrong, 'colour=%ff'].map(search => thrownBy(() => parse(search))),
  ]
}

const errorsOf = (faults: readonly Fault[]): ApiError[] =>
  faults.length === 0 ? [] : [thrownBy(() => throwFaults(faults))]

/** Those of any body in JSON. */
const readingFailures = ({ bodyBytes }: Config['limits']): ApiError[] => [
  new ApiError('malformed_json', 'the body is not JSON: it is empty'),
  notAnObject('the body'),
  new ApiError('content_too_large', `the body is over the limit of ${bodyBytes} bytes`),
  new ApiError(
    'unsupported_media_type',
    'the content type "text/plain" is not supported, allowed is application/json in UTF-8',
  ),
]

/** Those of a body that is a record. */
export function recordFailures(resource: Resource, mode: Mode, limits: Config['limits']): ApiError[] {
  const whole = examples.fields(resource)
  const withAll = (value: unknown) => Object.fromEntries(Object.keys(whole).map(name => [name, value]))
  const bodies: JsonObject[] = [withAll(null), withAll(''), { ...whole, colour: 'red' }, { ...whole, id: 2 }]
  const wrong = bodies.flatMap(body => errorsOf(checkBody(resource, body, mode, 1).faults))
  return [...readingFailures(limits), ...distinct(wrong)]
}

/** Those of a body that names records of `to`. */
export function referenceFailures(to: Resource, limits: Config['limits']): ApiError[] {
  const bodies: JsonObject[] = [{}, { id: 'one' }, { ...examples.reference, colour: 'red' }]
  const wrong = bodies.flatMap(body => errorsOf(checkReference(to, body).faults))
  return [...readingFailures(limits), ...distinct(wrong)]
}

/** Those of a body that is a batch in the field `name`. */
export const batchFailures = (name: string, { batchEntries }: Config['limits']): ApiError[] => [
  thrownBy(() => entriesOf({ [name]: [] }, name, batchEntries)),
  new ApiError(
    'limit_exceeded',
    `${name}: has ${batchEntries + 1} entries, at most ${batchEntries} are allowed`,
  ),
]

/** Those of a request that may have an Idempotency-Key. */
export const keyFailures: readonly ApiError[] = [requestInProgress(), keyReused()]
