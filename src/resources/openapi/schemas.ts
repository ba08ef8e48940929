// Every schema of the document, by name, from the definitions of the resources.
import type { Config } from '../../config.ts'
import type { Resource } from '../definition.ts'
import { recordBodies, referenceBodies } from './request-schemas.ts'
import { commonSchemas, recordSchemas, relatedSchemas } from './response-schemas.ts'
import type { Schema } from './schema.ts'

export function schemasOf(resources: readonly Resource[], limits: Config['limits']): Record<string, Schema> {
  const schemas = resources.map(resource => ({
    ...recordSchemas(resource),
    ...recordBodies(resource, limits),
    ...(resource.relation && {
      ...relatedSchemas(resource.relation),
      ...referenceBodies(resource.relation, limits),
    }),
  }))
  return Object.assign(commonSchemas(), ...schemas)
}
