// The examples of the document, of successes and of failures: made by the code that answers requests, so that they cannot differ from it.
import type { Config } from '../../config/config.ts'
import { ApiError, type Fault, throwFaults } from '../../core/api-error.ts'
import { keyReused, requestInProgress } from '../../database/idempotency-keys.ts'
import { collectionText, embeddedText, recordText } from '../../model/representation.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import { batchText, entriesOf, failed, notAnObject } from '../requests/batch.ts'
import { checkBody, checkReference, type JsonObject, type Mode } from '../requests/validation.ts'
import { notFound } from '../resources/handler.ts'
import { listMeta } from '../resources/page-meta.ts'

const EXAMPLE_ID = 1

export const existsError = ({ singular }: Resource): ApiError =>
  new ApiError(`${singular}_exists`, `${singular} already exists`)

/** The fields of a record, as a body that creates it has them. */
export const fieldsExample = (resource: Resource): Record<string, string> =>
  Object.fromEntries(Object.entries(resource.fields).map(([name, { example }]) => [name, example]))

const row = (resource: Resource) => ({ id: EXAMPLE_ID, ...fieldsExample(resource) })

/** @param relation what it includes, if it does */
export function recordExample(resource: Resource, relation?: Relation): unknown {
  const included = relation && `[${embeddedText(relation.to, row(relation.to))}]`
  return JSON.parse(recordText(resource, row(resource), included))
}

/** A page with one record. @param path of the collection */
export function pageExample(resource: Resource, path: string, recordsPerPage: number): unknown {
  const meta = listMeta(path, { startIndex: 0, recordsPerPage, others: '' }, 1, 1)
  return JSON.parse(collectionText(resource.plural, [recordText(resource, row(resource))], meta))
}

/** The answer to a batch of new records of which the second was there already. */
export function batchExample(resource: Resource): unknown {
  const created = { text: recordText(resource, row(resource)), result: 'created' } as const
  return JSON.parse(
    batchText(resource.plural, [created, failed(existsError(resource), fieldsExample(resource))]),
  )
}

/** The answer to a batch of references of which the second leads nowhere. */
export function additionsExample({ name, to }: Relation): unknown {
  const added = { text: recordText(to, row(to)), result: 'created' } as const
  const unknown = EXAMPLE_ID + 1
  return JSON.parse(batchText(name, [added, failed(notFound(to, unknown), { id: unknown })]))
}

export const referenceExample = { id: EXAMPLE_ID }

export const removedExample = (message: string): unknown => ({ meta: { status: 200, message } })

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
  const whole = fieldsExample(resource)
  const withAll = (value: unknown) => Object.fromEntries(Object.keys(whole).map(name => [name, value]))
  const bodies: JsonObject[] = [withAll(null), withAll(''), { ...whole, colour: 'red' }, { ...whole, id: 2 }]
  const wrong = bodies.flatMap(body => errorsOf(checkBody(resource, body, mode, 1).faults))
  return [...readingFailures(limits), ...distinct(wrong)]
}

/** Those of a body that names records of `to`. */
export function referenceFailures(to: Resource, limits: Config['limits']): ApiError[] {
  const bodies: JsonObject[] = [{}, { id: 'one' }, { ...referenceExample, colour: 'red' }]
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
