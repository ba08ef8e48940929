// What the handlers that write a resource do: the operations of the document under their names.
import type { Config } from '../../config/config.ts'
import type { Resource } from '../../model/resource.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { notFound } from '../resources/handler.ts'
import * as examples from './examples.ts'
import { batchFailures, keyFailures, queryFailures, recordFailures } from './failures.ts'
import { capital, oneOf, ref } from './json-schema.ts'
import { idempotencyKey, idParameter, ifMatch } from './parameters.ts'
import { failures, json, type Operation, success } from './responses.ts'

export function describeWrites(resource: Resource, limits: Config['limits']) {
  const { singular, plural } = resource
  const type = capital(singular)
  const tags = [capital(plural)] as const
  const parameters = [idParameter('id', resource), ifMatch]
  const record = { [`One ${singular}`]: examples.record(resource) }
  const fields = { [`One ${singular}`]: examples.fields(resource) }
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
        'A batch': { [plural]: [examples.fields(resource)] },
      }),
    },
    responses: {
      ...success(
        `The ${singular} as stored, or one entry for each of the batch.`,
        json(oneOf(type, `${type}Batch`), { ...record, 'A batch': examples.batch(resource) }),
        'Location',
        'ETag',
        'Idempotent-Replayed',
      ),
      ...failures([
        ...noQuery,
        ...recordFailures(resource, 'create', limits),
        ...batchFailures(plural, limits),
        examples.exists(resource),
        ...keyFailures,
      ]),
    },
  }

  const answersOf = (mode: 'replace' | 'patch') => ({
    ...success(`The ${singular} as stored.`, json(ref(type), record), 'ETag'),
    ...failures([...noQuery, ...recordFailures(resource, mode, limits), ...stale, examples.exists(resource)]),
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
      ...success('It is gone.', json(ref('Removed'), { Deleted: examples.removed(`${singular} 1 deleted`) })),
      ...failures([...noQuery, ...stale]),
    },
  }

  return { create, replace, patch, remove }
}
