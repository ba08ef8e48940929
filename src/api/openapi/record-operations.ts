// Describes the operations that read and write the records of a resource.
import type { Config } from '../../config/config.ts'
import { limitedRelations, type Resource } from '../../model/resource.ts'
import { parseNoQuery, parseRecordQuery, unpagedRecords } from '../requests/query.ts'
import {
  batchExample,
  batchFailures,
  existsError,
  fieldsExample,
  keyFailures,
  listFailures,
  missing,
  missingOrStale,
  pageExample,
  queryFailures,
  recordExample,
  recordFailures,
  removedExample,
} from './examples.ts'
import { filterParameters } from './filter-parameters.ts'
import { capitalize, oneOf, ref } from './json-schema.ts'
import {
  collectionParameters,
  idempotencyKey,
  idParameter,
  ifMatch,
  ifNoneMatch,
  includeParameters,
} from './parameters.ts'
import { failures, json, type Operation, read, success } from './responses.ts'

export function describeReads(resource: Resource, limits: Config['limits']) {
  const { singular, plural } = resource
  const type = capitalize(singular)
  const tags = [capitalize(plural)] as const
  const page = pageExample(resource, `/v1/${plural}`, unpagedRecords(limits))
  const parseRecord = (search: string) => parseRecordQuery(resource, search)
  const complete = limitedRelations(resource).map(relation => [
    `A ${singular} with ${relation.name}`,
    recordExample(resource, relation),
  ])

  const list: Operation = {
    operationId: `list${capitalize(plural)}`,
    tags,
    summary: `List ${plural}`,
    description: `Returns a page of the ${plural} that match all filters. The section Filters of the introduction describes them.`,
    parameters: [...collectionParameters(resource, limits), ...filterParameters(resource), ifNoneMatch],
    responses: {
      ...read(`A page of ${plural}.`, json(ref(`${type}Page`), { 'A page': page })),
      ...failures(listFailures(resource, limits)),
    },
  }

  const get: Operation = {
    operationId: `get${type}`,
    tags,
    summary: `Get a ${singular}`,
    parameters: [idParameter(resource), ...includeParameters(resource), ifNoneMatch],
    responses: {
      ...read(
        `The ${singular}.`,
        json(ref(type), {
          [`A ${singular}`]: recordExample(resource),
          ...Object.fromEntries(complete),
        }),
      ),
      ...failures([...queryFailures(parseRecord, 'include=all'), missing(resource)]),
    },
  }

  return { list, get }
}

export function describeWrites(resource: Resource, limits: Config['limits']) {
  const { singular, plural } = resource
  const type = capitalize(singular)
  const tags = [capitalize(plural)] as const
  const parameters = [idParameter(resource), ifMatch]
  const record = { [`A ${singular}`]: recordExample(resource) }
  const fields = { [`A ${singular}`]: fieldsExample(resource) }
  const invalidQuery = queryFailures(parseNoQuery)

  const create: Operation = {
    operationId: `create${type}`,
    tags,
    summary: `Create a ${singular} or a batch of ${plural}`,
    description: `The server assigns the ids. A batch has at most ${limits.batchEntries} entries. Each entry succeeds or fails independently, as its \`meta\` reports.`,
    parameters: [idempotencyKey],
    requestBody: {
      required: true,
      content: json(oneOf(`New${type}`, `New${capitalize(plural)}`), {
        ...fields,
        'A batch': { [plural]: [fieldsExample(resource)] },
      }),
    },
    responses: {
      ...success(
        `The created ${singular}, or the results of the batch.`,
        json(oneOf(type, `${type}Batch`), { ...record, 'A batch': batchExample(resource) }),
        'Location',
        'ETag',
        'Idempotent-Replayed',
      ),
      ...failures([
        ...invalidQuery,
        ...recordFailures(resource, 'create', limits),
        ...batchFailures(plural, limits),
        existsError(resource),
        ...keyFailures,
      ]),
    },
  }

  const updateResponses = (mode: 'replace' | 'patch') => ({
    ...success(`The updated ${singular}.`, json(ref(type), record), 'ETag'),
    ...failures([
      ...invalidQuery,
      ...recordFailures(resource, mode, limits),
      ...missingOrStale(resource),
      existsError(resource),
    ]),
  })

  const replace: Operation = {
    operationId: `replace${type}`,
    tags,
    summary: `Replace a ${singular}`,
    description: `Optional fields that are missing from the body are removed. The request does not create a ${singular}: an unknown id returns 404.`,
    parameters,
    requestBody: { required: true, content: json(ref(`${type}Replacement`), fields) },
    responses: updateResponses('replace'),
  }

  const mediaTypes = ['application/json', 'application/merge-patch+json']
  const patch: Operation = {
    operationId: `update${type}`,
    tags,
    summary: `Update a ${singular}`,
    description:
      'Changes the fields in the body and leaves the others unchanged. `null` removes an optional field (JSON Merge Patch, RFC 7396).',
    parameters,
    requestBody: { required: true, content: json(ref(`${type}Changes`), fields, ...mediaTypes) },
    responses: updateResponses('patch'),
  }

  const remove: Operation = {
    operationId: `delete${type}`,
    tags,
    summary: `Delete a ${singular}`,
    description: `Deletes the ${singular} and its memberships.`,
    parameters,
    responses: {
      ...success(
        `The ${singular} was deleted.`,
        json(ref('Removed'), { Deleted: removedExample(`${singular} 1 deleted`) }),
      ),
      ...failures([...invalidQuery, ...missingOrStale(resource)]),
    },
  }

  return { create, replace, patch, remove }
}
