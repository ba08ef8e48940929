// The operations on records: what the document says of the handlers that read and write a resource.
import type { Config } from '../../config/config.ts'
import type { Resource } from '../../model/resource.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { parseListQuery, parseNoQuery, parseRecordQuery, unpagedRecords } from '../requests/query.ts'
import { notFound } from '../resources/handler.ts'
import {
  batchExample,
  batchFailures,
  existsError,
  fieldsExample,
  keyFailures,
  pageExample,
  queryFailures,
  recordExample,
  recordFailures,
  removedExample,
} from './examples.ts'
import { filterParameters } from './filter-parameters.ts'
import { capital, oneOf, ref } from './json-schema.ts'
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
  const { singular, plural, relation } = resource
  const type = capital(singular)
  const tags = [capital(plural)] as const
  const page = pageExample(resource, `/v1/${plural}`, unpagedRecords(limits))
  const tooMany = `records_per_page=${limits.recordsPerPage + 1}`
  const parseList = (search: string) => parseListQuery(resource, search, limits)
  const parseRecord = (search: string) => parseRecordQuery(resource, search)

  const list: Operation = {
    operationId: `list${capital(plural)}`,
    tags,
    summary: `List ${plural}`,
    description: `Filters combine with AND, a repeated one too; there can be ${limits.filters}. Ordered by ascending id, unless \`sort\` says otherwise.`,
    parameters: [...filterParameters(resource), ...collectionParameters(resource, limits), ifNoneMatch],
    responses: {
      ...read(`A page of ${plural}.`, json(ref(`${type}Page`), { 'A page': page })),
      ...failures(queryFailures(parseList, 'id=abc', tooMany)),
    },
  }

  const get: Operation = {
    operationId: `get${type}`,
    tags,
    summary: `Get one ${singular}`,
    parameters: [idParameter('id', resource), ...includeParameters(resource), ifNoneMatch],
    responses: {
      ...read(
        `The ${singular}.`,
        json(ref(type), {
          [`One ${singular}`]: recordExample(resource),
          ...(relation && { [`With its ${relation.name}`]: recordExample(resource, relation) }),
        }),
      ),
      ...failures([...queryFailures(parseRecord, 'include=all'), notFound(resource, 7)]),
    },
  }

  return { list, get }
}

export function describeWrites(resource: Resource, limits: Config['limits']) {
  const { singular, plural } = resource
  const type = capital(singular)
  const tags = [capital(plural)] as const
  const parameters = [idParameter('id', resource), ifMatch]
  const record = { [`One ${singular}`]: recordExample(resource) }
  const fields = { [`One ${singular}`]: fieldsExample(resource) }
  const noQuery = queryFailures(parseNoQuery)
  const stale = [notFound(resource, 7), preconditionFailed(`the ${singular} with the id 1`)]

  const create: Operation = {
    operationId: `create${type}`,
    tags,
    summary: `Create one ${singular} or many`,
    description: `Ids are made by the server. A batch has up to ${limits.batchEntries} entries; each is created or fails by itself, as its own \`meta\` says.`,
    parameters: [idempotencyKey],
    requestBody: {
      required: true,
      content: json(oneOf(`New${type}`, `New${capital(plural)}`), {
        ...fields,
        'A batch': { [plural]: [fieldsExample(resource)] },
      }),
    },
    responses: {
      ...success(
        `The ${singular} as stored, or one entry for each of the batch.`,
        json(oneOf(type, `${type}Batch`), { ...record, 'A batch': batchExample(resource) }),
        'Location',
        'ETag',
        'Idempotent-Replayed',
      ),
      ...failures([
        ...noQuery,
        ...recordFailures(resource, 'create', limits),
        ...batchFailures(plural, limits),
        existsError(resource),
        ...keyFailures,
      ]),
    },
  }

  const answersOf = (mode: 'replace' | 'patch') => ({
    ...success(`The ${singular} as stored.`, json(ref(type), record), 'ETag'),
    ...failures([...noQuery, ...recordFailures(resource, mode, limits), ...stale, existsError(resource)]),
  })

  const replace: Operation = {
    operationId: `replace${type}`,
    tags,
    summary: `Replace one ${singular}`,
    description: 'A field that is not sent is removed. An unknown id is not created.',
    parameters,
    requestBody: { required: true, content: json(ref(`${type}Replacement`), fields) },
    responses: answersOf('replace'),
  }

  const mediaTypes = ['application/json', 'application/merge-patch+json']
  const patch: Operation = {
    operationId: `update${type}`,
    tags,
    summary: `Change one ${singular}`,
    description: 'Only the fields that are sent change; `null` removes one (RFC 7396).',
    parameters,
    requestBody: { required: true, content: json(ref(`${type}Changes`), fields, ...mediaTypes) },
    responses: answersOf('patch'),
  }

  const remove: Operation = {
    operationId: `delete${type}`,
    tags,
    summary: `Delete one ${singular}`,
    description: 'Its memberships go with it.',
    parameters,
    responses: {
      ...success('It is gone.', json(ref('Removed'), { Deleted: removedExample(`${singular} 1 deleted`) })),
      ...failures([...noQuery, ...stale]),
    },
  }

  return { create, replace, patch, remove }
}
