// Serves the OpenAPI document at /v1/openapi.json, and at /v1/docs a swagger-ui page that shows it. All files of
// the page come from this server.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Context } from 'koa'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { openApi } from '../openapi/document.ts'
import { object, text } from '../openapi/json-schema.ts'
import { type DescribedRoute, describe, json } from '../openapi/operation.ts'
import { inPath } from '../openapi/parameters.ts'
import { parseNoQuery } from '../requests/parameters.ts'
import { textEtag } from '../resources/etags.ts'
import { assertAccepts, assertAcceptsJson, inUtf8, respondNotModified, respondRead } from '../respond.ts'
import type { PathParams, Route } from '../router.ts'

const pageFolder = fileURLToPath(new URL('page', import.meta.url))
const swaggerUiFolder = dirname(fileURLToPath(import.meta.resolve('swagger-ui-dist/package.json')))

const page = { path: join(pageFolder, 'index.html'), type: 'text/html' }
type File = Readonly<typeof page>

/** The files below /v1/docs/, by name. */
const files = new Map<string, File>([
  ['page.css', { path: join(pageFolder, 'page.css'), type: 'text/css' }],
  ['page.js', { path: join(pageFolder, 'page.js'), type: 'text/javascript' }],
  ['swagger-ui.css', { path: join(swaggerUiFolder, 'swagger-ui.css'), type: 'text/css' }],
  ['swagger-ui-bundle.js', { path: join(swaggerUiFolder, 'swagger-ui-bundle.js'), type: 'text/javascript' }],
])

/** Limits the page to this server. swagger-ui's style sheet has its icons as `data:` URLs. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/**
 * Sends a file. It is read from disk for each request: such requests are rare, and no worker keeps the contents in memory.
 */
async function sendFile(ctx: Context, { path, type }: File): Promise<void> {
  parseNoQuery(ctx.querystring)
  assertAccepts(ctx, type)
  const { size, mtimeMs } = await stat(path)
  if (respondNotModified(ctx, `${size.toString(36)}-${Math.trunc(mtimeMs).toString(36)}`)) return
  ctx.type = inUtf8(type)
  ctx.length = size
  ctx.body = createReadStream(path)
}

const tag = 'Document'
const anyObject = { type: 'object' }

const fileNotFound = (name: string) => new ApiError('route_not_found', `/v1/docs/${name} does not exist`)

function fileOf({ file: name = '' }: PathParams): File {
  const file = files.get(name)
  if (file === undefined) throw fileNotFound(name)
  return file
}

/** @param described all other routes of the service */
export function createDocsRoutes(
  resources: readonly Resource[],
  described: readonly DescribedRoute[],
  limits: Config['limits'],
): Route[] {
  const routes: Route[] = [
    {
      ...describe('get', '/v1/openapi.json', {
        operationId: 'getDocument',
        tag,
        summary: 'Get the OpenAPI document',
        description: 'Returns this document. It describes all operations of the server, with its limits.',
        success: [
          'The OpenAPI 3.1 document.',
          json({
            ...object({ openapi: text, info: anyObject, paths: anyObject }),
            additionalProperties: true,
          }),
        ],
      }),
      policies: [],
      async handler(ctx) {
        parseNoQuery(ctx.querystring)
        assertAcceptsJson(ctx)
        respondRead(ctx, etag, document)
      },
    },
    {
      ...describe('get', '/v1/docs', {
        operationId: 'getPage',
        tag,
        summary: 'Get the documentation page',
        description: 'The page shows the OpenAPI document, searches it, and sends requests to this server.',
        success: ['The documentation page.', json(text, {}, ['text/html']), 'Content-Security-Policy'],
      }),
      policies: [],
      async handler(ctx) {
        await sendFile(ctx, page)
        ctx.set('Content-Security-Policy', contentSecurityPolicy)
      },
    },
    {
      ...describe('get', '/v1/docs/:file', {
        operationId: 'getPageFile',
        tag,
        summary: 'Get a file of the documentation page',
        description: 'Returns a style sheet or a script of the page.',
        parameters: [inPath('file', 'The name of the file.', { type: 'string', enum: [...files.keys()] })],
        success: ['The file.', json(text, {}, ['text/css', 'text/javascript'])],
        failures: [fileNotFound('x')],
      }),
      checkPath: params => void fileOf(params),
      policies: [],
      handler: ctx => sendFile(ctx, fileOf(ctx.params)),
    },
  ]
  const document = openApi(resources, [...described, ...routes], limits)
  const etag = textEtag(document)
  return routes
}
