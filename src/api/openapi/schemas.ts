// Every schema of the document, by name, from the definitions of the resources.
import type { Config } from '../../config/config.ts'
import type { Resource } from '../../model/resource.ts'
import type { Schema } from './json-schema.ts'
import { recordBodies, referenceBodies } from './request-schemas.ts'
import { commonSchemas, recordSchemas, relatedSchemas } from './response-schemas.ts'

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
