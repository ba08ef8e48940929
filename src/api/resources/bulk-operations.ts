// Describes the operations that change and delete many records of a collection.
import type { Config } from '../../config/config.ts'
import type { Resource } from '../../model/resource.ts'
import { exists, invalidBatch } from '../errors.ts'
import {
  batchFailures,
  changedExample,
  changeExample,
  changeFailures,
  deletedExample,
  idsFailures,
  missing,
} from '../openapi/examples.ts'
import { capitalize, ref } from '../openapi/json-schema.ts'
import { describe, json } from '../openapi/operation.ts'
import { idsParameters } from '../openapi/parameters.ts'

export function describeBulk(resource: Resource, limits: Config['limits']) {
  const { singular, plural } = resource
  const type = capitalize(singular)
  const tags = [capitalize(plural)] as const
  const collection = `/v1/${plural}`

  return {
    patchMany: describe('patch', collection, {
      operationId: `update${capitalize(plural)}`,
      tags,
      summary: `Update several ${plural}`,
      description: `Changes up to ${limits.batchEntries} ${plural}, in their order and in one transaction. An entry has the id of a ${singular} and the fields to change; \`null\` removes an optional field. Each entry succeeds or fails independently, as its \`meta\` reports, and shows the ${singular} as it is after the entry. An id can come twice. You can repeat the request: it has the same result.`,
      body: json(ref(`${type}Patches`), { 'A batch': { [plural]: [changeExample(resource)] } }, [
        'application/json',
        'application/merge-patch+json',
      ]),
      success: [
        'The results of the batch.',
        json(ref(`Updated${capitalize(plural)}`), {
          'A batch': changedExample(resource, exists(resource)),
        }),
      ],
      failures: [...changeFailures(limits), ...batchFailures(plural, limits), invalidBatch(plural)],
    }),

    removeMany: describe('delete', collection, {
      operationId: `delete${capitalize(plural)}`,
      tags,
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
  }
}
