// The OpenAPI 3.1 document: every route, with what is said of it, and the schemas of every resource.
import type { Config } from '../../config/config.ts'
import { MAX_FAULTS } from '../../core/api-error.ts'
import { securityHeaders } from '../../core/response-headers.ts'
import type { Resource } from '../../model/resource.ts'
import { capital } from './json-schema.ts'
import { requestIdParameter } from './parameters.ts'
import { anyFailure, headerComponents, type Operation } from './responses.ts'
import { schemasOf } from './schemas.ts'

/** A route of the service, and what the document says of it. */
export interface DescribedRoute {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** With parameters as `:id`. */
  readonly path: string
  readonly operation: Operation
}

const bytes = (count: number): string => `${count.toLocaleString('en')} bytes`

function introduction(resources: readonly Resource[], limits: Config['limits']): string {
  const names = new Intl.ListFormat('en').format(resources.map(({ plural }) => plural))
  const everywhere = Object.keys(securityHeaders)
    .map(name => `\`${name}\``)
    .join(' and ')
  return `${capital(names)}, over HTTP.

Bodies are JSON in UTF-8, of ${bytes(limits.bodyBytes)} at most; a URL has ${bytes(limits.urlBytes)} at most; there can be ${limits.headers} headers of ${bytes(limits.headerBytes)} together.
Every answer is JSON with a \`meta\`: its \`status\` mirrors the HTTP status, and a failure has a \`code\` to program against, a \`message\` for people, and in \`errors\` every fault of the request, up to ${MAX_FAULTS}.
An unknown parameter or field is refused, never ignored. All comparison of names is exact, to the last code point.

\`HEAD\` is possible wherever \`GET\` is, and answers the same without the body. \`OPTIONS\` answers 204 with the methods of a path in \`Allow\`, as does 405 for a method that it does not have. Every answer has the headers ${everywhere}.`
}

/** One object for each path, with an operation for each of its methods. */
function pathsOf(routes: readonly DescribedRoute[]): Record<string, Record<string, unknown>> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const { method, path, operation } of routes) {
    const template = path.replaceAll(/:(\w+)/g, '{$1}')
    paths[template] ??= { parameters: [requestIdParameter] }
    Object.assign(paths[template], { [method]: operation })
  }
  return paths
}

/** The whole document as JSON text. */
export function openApi(
  resources: readonly Resource[],
  routes: readonly DescribedRoute[],
  limits: Config['limits'],
): string {
  return JSON.stringify({
    openapi: '3.1.1',
    info: {
      title: 'users-api',
      version: '1',
      description: introduction(resources, limits),
      license: { name: 'All rights reserved', identifier: 'LicenseRef-AllRightsReserved' },
    },
    servers: [{ url: '/', description: 'The server that this document comes from.' }],
    security: [],
    tags: [
      ...resources.map(({ plural, description }) => ({ name: capital(plural), description })),
      { name: 'Document', description: 'This document, and the page that shows it.' },
    ],
    paths: pathsOf(routes),
    components: {
      schemas: schemasOf(resources, limits),
      headers: headerComponents,
      responses: { Failure: anyFailure(limits) },
    },
  })
}
