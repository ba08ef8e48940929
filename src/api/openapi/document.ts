// Builds the OpenAPI 3.1 document from the route table and the resource definitions.
import type { Config } from '../../config/config.ts'
import { MAX_FAULTS } from '../../core/api-error.ts'
import { securityHeaders } from '../../core/response-headers.ts'
import type { Resource } from '../../model/resource.ts'
import { callerComponents } from './callers.ts'
import { capitalize } from './json-schema.ts'
import { requestIdParameter } from './parameters.ts'
import { anyFailure, type DescribedRoute, headerComponents } from './responses.ts'
import { schemasOf } from './schemas.ts'

const bytes = (count: number): string => `${count.toLocaleString('en')} bytes`

function introduction(
  resources: readonly Resource[],
  limits: Config['limits'],
  needsCaller: boolean,
): string {
  const names = new Intl.ListFormat('en').format(resources.map(({ plural }) => plural))
  const headers = Object.keys(securityHeaders)
    .map(name => `\`${name}\``)
    .join(' and ')
  const tokens = needsCaller
    ? 'Every request needs a token, except for this document, the documentation page and `OPTIONS`. Send an API key or a JWT as `Authorization: Bearer <token>`.\n\n'
    : ''
  return `An HTTP API for ${names}.

Request bodies are JSON in UTF-8, with at most ${bytes(limits.bodyBytes)}. A URL has at most ${bytes(limits.urlBytes)}. A request has at most ${limits.headers} headers, with at most ${bytes(limits.headerBytes)} in total. Unknown parameters and fields are rejected.

${tokens}Responses are JSON objects with a \`meta\` field, except for this document and the documentation page. \`meta.status\` repeats the HTTP status. An error response also has \`meta.code\`, a stable error code for programs, and \`meta.message\`, a description for people. If parameters or fields are invalid, \`meta.errors\` lists every fault, up to ${MAX_FAULTS}.

Names are compared exactly: two names are equal only if all their code points are equal.

Every path that supports \`GET\` also supports \`HEAD\`, which returns the same response without the body. \`OPTIONS\` returns 204 with the methods of the path in \`Allow\`. A method that the path does not support returns 405 with the same header. Every response has the headers ${headers}.`
}

/** Returns the path items of OpenAPI: one for each path, with an operation for each of its methods. */
function pathsOf(routes: readonly DescribedRoute[]): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const { method, path, operation } of routes) {
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
  const needsCaller = routes.some(({ operation }) => operation.security !== undefined)
  return JSON.stringify({
    openapi: '3.1.1',
    info: {
      title: 'users-api',
      version: '1',
      description: introduction(resources, limits, needsCaller),
      license: { name: 'All rights reserved', identifier: 'LicenseRef-AllRightsReserved' },
    },
    servers: [{ url: '/', description: 'The server that returned this document.' }],
    security: [],
    tags: [
      ...resources.map(({ plural, description }) => ({ name: capitalize(plural), description })),
      { name: 'Document', description: 'The OpenAPI document and the documentation page.' },
    ],
    paths: pathsOf(routes),
    components: {
      schemas: schemasOf(resources, limits),
      ...(needsCaller && { securitySchemes: callerComponents.securitySchemes }),
      headers: { ...headerComponents, ...(needsCaller && callerComponents.headers) },
      responses: { Failure: anyFailure(limits) },
    },
  })
}
