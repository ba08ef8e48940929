// Builds the OpenAPI 3.1 document from the route table and the resource definitions.
import type { Config } from '../../config/config.ts'
import type { Resource } from '../../model/resource.ts'
import { callerComponents } from './callers.ts'
import { changeSchemas } from './change-schemas.ts'
import { introduction } from './introduction.ts'
import { capitalize } from './json-schema.ts'
import { anyFailure, type DescribedRoute, headerComponents } from './operation.ts'
import { requestIdParameter } from './parameters.ts'
import { schemasOf } from './schemas.ts'

/** Returns the path items of OpenAPI: one for each path, with an operation for each of its methods. */
function pathsOf(routes: readonly DescribedRoute[]): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const { method, path, operation } of routes.toSorted((a, b) => a.path.localeCompare(b.path))) {
    const template = path.replaceAll(/:(\w+)/g, '{$1}')
    paths[template] ??= { parameters: [requestIdParameter] }
    Object.assign(paths[template], { [method]: operation })
  }
  return paths
}

/** Returns the document as JSON text. */
export function openApi(
  resources: readonly Resource[],
  routes: readonly DescribedRoute[],
  limits: Config['limits'],
): string {
  const hasChanges = routes.some(({ path }) => path === '/v1/changes')
  const needsCaller = routes.some(({ operation }) => 'security' in operation)
  return JSON.stringify({
    // Not 3.1.1, which says the same: several tools, such as swagger-parser up to 10.1.0, refuse it.
    openapi: '3.1.0',
    info: {
      title: 'users-api',
      version: '1',
      description: introduction(resources, limits, needsCaller),
      contact: { name: 'The operator of this server' },
      license: { name: 'All rights reserved', identifier: 'LicenseRef-AllRightsReserved' },
    },
    // Tools that import the document need an absolute URL. The documentation page replaces it with its own address.
    servers: [{ url: 'http://127.0.0.1:8000', description: 'The default address of the service.' }],
    security: [],
    tags: [
      ...resources.map(({ plural, description }) => ({ name: capitalize(plural), description })),
      ...(hasChanges ? [{ name: 'Changes', description: 'What has changed, in order.' }] : []),
      { name: 'Document', description: 'The OpenAPI document and the documentation page.' },
    ],
    paths: pathsOf(routes),
    components: {
      schemas: { ...schemasOf(resources, limits), ...(hasChanges && changeSchemas(resources)) },
      ...(needsCaller && { securitySchemes: callerComponents.securitySchemes }),
      headers: { ...headerComponents, ...(needsCaller && callerComponents.headers) },
      responses: { Failure: anyFailure(limits) },
    },
  })
}
