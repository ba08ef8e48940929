// Builds the named schemas of the change feed. Clients need that of an event for the data of a stream, too.
import { changeTypes, idName, type Resource } from '../../model/resource.ts'
import { idSchema, listOf, object, ref, type Schema, text } from './json-schema.ts'

export function changeSchemas(resources: readonly Resource[]): Record<string, Schema> {
  const ids = Object.fromEntries(resources.map(resource => [`${idName(resource)}?`, idSchema]))
  const meta = object({
    status: { type: 'integer', const: 200 },
    message: text,
    links: object({ next: { type: 'string', format: 'uri-reference' } }),
  })
  return {
    Change: {
      description: 'A change of a record or a membership.',
      ...object({
        id: idSchema,
        type: { type: 'string', enum: changeTypes(resources) },
        ...ids,
        at: { type: 'string', format: 'date-time' },
        by: {
          type: ['string', 'null'],
          description: 'The name of the caller; null if requests need no token.',
        },
        request_id: { ...text, description: 'The `Request-Id` of the request.' },
      }),
    },
    ChangePage: {
      description: 'A page of changes.',
      ...object({ changes: listOf(ref('Change')), meta }),
    },
  }
}
