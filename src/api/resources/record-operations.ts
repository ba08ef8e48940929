// Describes the operations that read and write the records of a resource: one, or several with one request.
import type { Config } from '../../config/config.ts'
import { idName, type Resource } from '../../model/resource.ts'
import { exists, invalidBatch } from '../errors.ts'
import {
  batchExample,
  batchFailures,
  changeFailures,
  deletedExample,
  fieldsExample,
  idsFailures,
  listFailures,
  missing,
  pageExample,
  queryFailures,
  recordExample,
  recordFailures,
  removedExample,
  rowExample,
} from '../openapi/examples.ts'
import { capitalize, oneOf, ref } from '../openapi/json-schema.ts'
import { describe, json } from '../openapi/operation.ts'
import { collectionParameters, idsParameters, includeParameters } from '../openapi/parameters.ts'
import { patchTypes } from '../requests/body.ts'
import { defaultRecordsPerPage, parseRecordQuery } from '../requests/query.ts'

export function describeRecords(resource: Resource, limits: Config['limits']) {
  const { singular, plural } = resource
  const type = capitalize(singular)
  const collection = `/v1/${plural}`
  const path = `${collection}/:${idName(resource)}`
  const record = { [`A ${singular}`]: recordExample(resource) }
  const batch = batchExample(plural, resource, exists(resource), fieldsExample(resource))
  const fields = { [`A ${singular}`]: fieldsExample(resource) }
  const page = pageExample(resource, collection, defaultRecordsPerPage(limits))
  const related = resource.relations
  const complete = Object.fromEntries(
    related.map(relation => [`A ${singular} with ${relation.name}`, recordExample(resource, relation)]),
  )
  const updated = [`The updated ${singular}.`, json(ref(type), record), 'ETag'] as const
  const updateFailures = (mode: 'replace' | 'patch') => [
    ...recordFailures(resource, mode, limits),
    exists(resource),
  ]

  return {
    list: describe('get', collection, {
      operationId: `list${capitalize(plural)}`,
      summary: `List ${plural}`,
      description: `Returns a page of the ${plural} that match all filters. The section Filters of the introduction describes them.`,
      parameters: collectionParameters(resource, limits),
      invalidQuery: listFailures(resource, limits),
      success: [`A page of ${plural}.`, json(ref(`${type}Page`), { 'A page': page })],
    }),

    create: describe('post', collection, {
      operationId: `create${type}`,
      summary: `Create a ${singular} or a batch of ${plural}`,
      description: `The server assigns the ids. A batch has at most ${limits.batchEntries} entries. Each entry succeeds or fails independently, as its \`meta\` reports.`,
      body: json(oneOf(`New${type}`, `New${capitalize(plural)}`), {
        ...fields,
        'A batch': { [plural]: [fieldsExample(resource)] },
      }),
      success: [
        `The created ${singular}, or the results of the batch.`,
        json(oneOf(type, `${type}Batch`), { ...record, 'A batch': batch }),
        'Location',
        'ETag',
      ],
      failures: [
        ...recordFailures(resource, 'create', limits),
        ...batchFailures(plural, limits),
        exists(resource),
      ],
    }),

    patchMany: describe('patch', collection, {
      operationId: `update${capitalize(plural)}`,
      summary: `Update several ${plural}`,
      description: `Changes up to ${limits.batchEntries} ${plural}, in their order and in one transaction. An entry has the id of a ${singular} and the fields to change; \`null\` removes an optional field. Each entry succeeds or fails independently, as its \`meta\` reports, and shows the ${singular} as it is after the entry. An id can come twice. You can repeat the request: it leaves the same records, unless an entry failed because a later entry gives up the name that it needs. Put the entry that gives up a name first.`,
      body: json(ref(`${type}Patches`), { 'A batch': { [plural]: [rowExample(resource)] } }, patchTypes),
      success: [
        'The results of the batch.',
        json(ref(`Updated${capitalize(plural)}`), {
          'A batch': batchExample(plural, resource, exists(resource), { id: 2 }, 'updated'),
        }),
      ],
      failures: [...changeFailures(limits), ...batchFailures(plural, limits), invalidBatch(plural)],
    }),

    removeMany: describe('delete', collection, {
      operationId: `delete${capitalize(plural)}`,
      summary: `Delete several ${plural}`,
      description: `Deletes the ${plural} with these ids, and their memberships. At least one id is required, and at most ${limits.batchEntries} are allowed. Each id succeeds or fails independently, as its \`meta\` reports; an id that comes twice fails the second time. If a parameter is invalid, nothing is deleted.`,
      parameters: idsParameters(`The ids of the ${plural} to delete.`),
      invalidQuery: idsFailures(limits),
      success: [
        'The results, in the order of the ids.',
        json(ref(`Deleted${capitalize(plural)}`), {
          'Two ids': deletedExample(plural, `${singular} 1 deleted`, missing(resource)),
        }),
      ],
    }),

    get: describe('get', path, {
      operationId: `get${type}`,
      summary: `Get a ${singular}`,
      description: [
        `Returns the ${singular} with this id.`,
        ...related.map(({ name }) => `\`include=${name}\` embeds its ${name}.`),
      ].join(' '),
      target: resource,
      parameters: includeParameters(resource),
      invalidQuery: queryFailures(queryString => parseRecordQuery(resource, queryString), 'include=all'),
      success: [`The ${singular}.`, json(ref(type), { ...record, ...complete })],
    }),

    replace: describe('put', path, {
      operationId: `replace${type}`,
      summary: `Replace a ${singular}`,
      description: `Optional fields that are missing from the body are removed. The request does not create a ${singular}: an unknown id returns 404.`,
      target: resource,
      body: json(ref(`${type}Replacement`), fields),
      success: updated,
      failures: updateFailures('replace'),
    }),

    patch: describe('patch', path, {
      operationId: `update${type}`,
      summary: `Update a ${singular}`,
      description:
        'Changes the fields in the body and leaves the others unchanged. `null` removes an optional field (JSON Merge Patch, RFC 7396).',
      target: resource,
      body: json(ref(`${type}Changes`), fields, patchTypes),
      success: updated,
      failures: updateFailures('patch'),
    }),

    remove: describe('delete', path, {
      operationId: `delete${type}`,
      summary: `Delete a ${singular}`,
      description: `Deletes the ${singular} and its memberships.`,
      target: resource,
      success: [
        `The ${singular} was deleted.`,
        json(ref('Removed'), { Deleted: removedExample(`${singular} 1 deleted`) }),
      ],
    }),
  }
}
