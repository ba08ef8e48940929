// The document at /v1/openapi.json, and at /v1/docs the page that shows it: swagger-ui, every file of it from here.

import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { describeDocument } from '../openapi/docs-operations.ts'
import { type DescribedRoute, openApi } from '../openapi/document.ts'
import { parseNoQuery } from '../requests/query.ts'
import { textEtag } from '../resources/etags.ts'
import type { Handler } from '../resources/handler.ts'
import { assertAccepts, assertAcceptsJson, inUtf8, respondNotModified, respondRead } from '../respond.ts'
import type { Route } from '../router.ts'

const own = fileURLToPath(new URL('page', import.meta.url))
const swaggerUi = dirname(fileURLToPath(import.meta.resolve('swagger-ui-dist/package.json')))

interface File {
  readonly path: string
  readonly type: string
}

const page: File = { path: join(own, 'index.html'), type: 'text/html' }

/** By their names under /v1/docs/. */
const files: Readonly<Record<string, File>> = {
  'page.css': { path: join(own, 'page.css'), type: 'text/css' },
  'page.js': { path: join(own, 'page.js'), type: 'text/javascript' },
  'swagger-ui.css': { path: join(swaggerUi, 'swagger-ui.css'), type: 'text/css' },
  'swagger-ui-bundle.js': { path: join(swaggerUi, 'swagger-ui-bundle.js'), type: 'text/javascript' },
}

/** The page runs, loads and asks what is this server's, and nothing else; swagger-ui's style sheet brings its icons as data. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** Reads from the disk for each client that has not got it: few ask, and the worker's memory stays free of it. */
const sender =
  ({ path, type }: File, headers: Readonly<Record<string, string>> = {}): Handler =>
  async ctx => {
    parseNoQuery(ctx.querystring)
    assertAccepts(ctx, type)
    const { size, mtimeMs } = await stat(path)
    const unmodified = respondNotModified(ctx, `${size.toString(36)}-${Math.trunc(mtimeMs).toString(36)}`)
    ctx.set(headers)
    if (unmodified) return
    ctx.type = inUtf8(type)
    ctx.length = size
    ctx.body = createReadStream(path)
  }

/** @param described every other route of the service */
export function createDocsRoutes(
  resources: readonly Resource[],
  described: readonly DescribedRoute[],
  limits: Config['limits'],
): Route[] {
  const said = describeDocument(Object.keys(files))
  const senders = new Map(Object.entries(files).map(([name, file]) => [name, sender(file)]))

  const sendDocument: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    assertAcceptsJson(ctx)
    respondRead(ctx, etag, text)
  }
  const senderOf = (file = ''): Handler => {
    const send = senders.get(file)
    if (send === undefined) throw new ApiError('route_not_found', `there is nothing at /v1/docs/${file}`)
    return send
  }
  const sendFile: Handler = async ctx => senderOf(ctx.params.file)(ctx)

  const routes: Route[] = [
    { method: 'get', path: '/v1/openapi.json', handler: sendDocument, operation: said.document },
    {
      method: 'get',
      path: '/v1/docs',
      handler: sender(page, { 'Content-Security-Policy': policy }),
      operation: said.page,
    },
    {
      method: 'get',
      path: '/v1/docs/:file',
      checkPath: params => void senderOf(params.file),
      handler: sendFile,
      operation: said.file,
    },
  ]
  const text = openApi(resources, [...described, ...routes], limits)
  const etag = textEtag(text)
  return routes
}
