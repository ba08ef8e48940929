// The examples of the document, for successes and failures. Records, batches and errors come from the functions
// that write the responses, so they look like real ones; `fieldsExample` takes the values from the definitions.
import type { Config } from '../../config/config.ts'
import { ApiError, Faults } from '../../core/api-error.ts'
import type { JsonObject } from '../../core/json-object.ts'
import { keyReused, requestInProgress } from '../../database/idempotency-rows.ts'
import { collectionText, embeddedText, recordText } from '../../model/representation.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import { bodyTooLarge, malformedPath, notAnObject, notFound, notJson, versionMismatch } from '../errors.ts'
import { pageMeta } from '../page-meta.ts'
import { batchText, deleted, entriesOf, failed, type Success } from '../requests/batch.ts'
import { jsonTypes, patchTypes, unsupportedCoding, unsupportedType } from '../requests/body.ts'
import { createListParser, parseIdsQuery } from '../requests/query.ts'
import { checkBody, checkReference, type Mode } from '../requests/validation.ts'

const EXAMPLE_ID = 1

/** The fields of a record, as the body of a create request. */
export const fieldsExample = (resource: Resource): Record<string, string> =>
  Object.fromEntries(Object.entries(resource.fields).map(([name, { example }]) => [name, example]))

/** A record as a row, and as an entry of a PATCH of a collection. */
export const rowExample = (resource: Resource) => ({ id: EXAMPLE_ID, ...fieldsExample(resource) })

/** @param relation the relation that the record embeds, if any */
export function recordExample(resource: Resource, relation?: Relation): unknown {
  const included = relation && `"${relation.name}":[${embeddedText(relation.to, rowExample(relation.to))}]`
  return JSON.parse(recordText(resource, rowExample(resource), included))
}

/** A page with one record. @param path the path of the collection */
export function pageExample(resource: Resource, path: string, recordsPerPage: number): unknown {
  const meta = pageMeta(path, { startIndex: 0, recordsPerPage, others: '' }, 1, 1)
  return JSON.parse(collectionText(resource.plural, [recordText(resource, rowExample(resource))], meta))
}

/** The response to a batch of two. @param error the failure of the second entry, whose valid fields are `failedFields` */
export function batchExample(
  name: string,
  resource: Resource,
  error: ApiError,
  failedFields: JsonObject,
  success: Success = 'created',
): unknown {
  const first = { text: recordText(resource, rowExample(resource)), result: success }
  return JSON.parse(batchText(name, [first, failed(error, failedFields)], success))
}

/** The response to a DELETE of two records. @param error the failure of the second one, whose id is 7 */
export const deletedExample = (name: string, message: string, error: ApiError): unknown =>
  JSON.parse(batchText(name, [deleted(EXAMPLE_ID, message), failed(error, { id: 7 })], 'deleted'))

export const referenceExample = { id: EXAMPLE_ID }

export const removedExample = (message: string): unknown => ({ meta: { status: 200, message } })

/** Returns the ApiError that `work` throws. @throws Error if `work` does not throw */
function thrownBy(work: () => unknown): ApiError {
  try {
    work()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('an example of a failure did not throw')
}

/** Keeps the first error of each code. */
const distinct = (errors: readonly ApiError[]): ApiError[] =>
  [...new Map(errors.toReversed().map(error => [error.code, error])).values()].toReversed()

/**
 * The failures of an invalid path or query string. The last error of each code becomes its example.
 * @param parse the parser of the query string
 * @param invalid query strings that `parse` rejects, in addition to an unknown parameter and malformed UTF-8
 */
export function queryFailures(
  parse: (queryString: string) => unknown,
  ...invalid: readonly string[]
): ApiError[] {
  return [
    malformedPath(),
    ...['colour=red', 'colour=%ff', ...invalid].map(queryString => thrownBy(() => parse(queryString))),
  ]
}

/** The failures of a query string that selects a page of records. */
export const listFailures = (resource: Resource, limits: Config['limits']): ApiError[] =>
  queryFailures(createListParser(resource, limits), 'id=abc', `records_per_page=${limits.recordsPerPage + 1}`)

/** The failures of a query string with the ids of several records. */
export const idsFailures = ({ batchEntries }: Config['limits']): ApiError[] =>
  queryFailures(
    queryString => parseIdsQuery(`id[in]=1&${queryString}`, batchEntries),
    'id[in]=abc',
    `id[in]=${Array.from({ length: batchEntries }, () => 2)}`,
  )

/** The failure for a record that does not exist. */
export const missing = (resource: Resource): ApiError => notFound(resource, 7)

/** The failure of a write to a record that has changed. */
export const mismatch = (resource: Resource): ApiError => versionMismatch(resource, EXAMPLE_ID)

/** The failures of any JSON body, and of these bodies. @param types the media types that are allowed */
function bodyFailures(
  { bodyBytes }: Config['limits'],
  types: readonly string[],
  check: (body: JsonObject, faults: Faults) => unknown,
  ...bodies: readonly JsonObject[]
): ApiError[] {
  const errors = bodies.flatMap(body => {
    const faults = new Faults()
    check(body, faults)
    return faults.error() ?? []
  })
  return [
    notJson('it is empty'),
    notAnObject('the body'),
    bodyTooLarge(bodyBytes),
    unsupportedCoding('gzip'),
    unsupportedType('text/plain', types),
    ...distinct(errors),
  ]
}

/** The failures of a body that is a record. */
export function recordFailures(resource: Resource, mode: Mode, limits: Config['limits']): ApiError[] {
  const complete = fieldsExample(resource)
  const allFields = (value: unknown) => Object.fromEntries(Object.keys(complete).map(name => [name, value]))
  return bodyFailures(
    limits,
    mode === 'patch' ? patchTypes : jsonTypes,
    (body, faults) => checkBody(resource, body, mode, faults, EXAMPLE_ID),
    allFields(null),
    allFields(''),
    { ...complete, colour: 'red' },
    { ...complete, id: EXAMPLE_ID + 1 },
  )
}

/** The failures of a body that is no list of changes. */
export const changeFailures = (limits: Config['limits']): ApiError[] =>
  bodyFailures(limits, patchTypes, () => undefined)

/** The failures of a body that is a reference to a record of `to`. */
export const referenceFailures = (to: Resource, limits: Config['limits']): ApiError[] =>
  bodyFailures(
    limits,
    jsonTypes,
    (body, faults) => checkReference(to, body, faults),
    {},
    { id: 'one' },
    { id: EXAMPLE_ID, colour: 'red' },
  )

/** The failures of a body with a batch in the field `name`. */
export const batchFailures = (name: string, { batchEntries }: Config['limits']): ApiError[] =>
  [0, batchEntries + 1].map(length =>
    thrownBy(() => entriesOf({ [name]: Array.from({ length }) }, name, batchEntries)),
  )

/** The failures of a request with an Idempotency-Key. */
export const keyFailures: readonly ApiError[] = [requestInProgress(), keyReused()]
