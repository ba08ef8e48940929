// Reads request bodies: checks their media types, has koa-bodyparser read the bytes and limit their number, and parses them.
import type { Context } from 'koa'
import bodyParser from 'koa-bodyparser'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import { isObject, type JsonObject } from '../../core/json-object.ts'
import { quoted } from '../../core/quoted.ts'
import { bodyTooLarge, notAnObject } from '../errors.ts'
import { assertAcceptsJson } from '../respond.ts'
import { createBodyBudget } from './body-budget.ts'
import { createBodyParser, endedEarly } from './body-parser.ts'

const JSON_TYPE = 'application/json'
/** The media types of a PATCH: JSON, and JSON Merge Patch (RFC 7396). */
export const patchTypes = [JSON_TYPE, 'application/merge-patch+json']
/** The header that names them (RFC 5789, 3.1). */
export const acceptPatch = { 'Accept-Patch': patchTypes.join(', ') }
/** The media types of all other bodies. */
export const jsonTypes = [JSON_TYPE]

/**
 * @param type the value of Content-Type
 * @param allowed the media types of the method; a header names those of PATCH (RFC 5789, 2.2)
 */
export const unsupportedType = (type: string | undefined, allowed: readonly string[]) =>
  new ApiError(
    'unsupported_media_type',
    `the content type ${type === undefined ? 'is missing' : `${quoted(type)} is not supported`}; allowed: ${allowed.join(' and ')} in UTF-8`,
    { headers: allowed === patchTypes ? acceptPatch : {} },
  )

/** @param coding the value of Content-Encoding. The header names what is allowed (RFC 9110, 12.5.3). */
export const unsupportedCoding = (coding: string) =>
  new ApiError(
    'unsupported_media_type',
    `the content encoding ${quoted(coding)} is not supported; allowed: identity`,
    { headers: { 'Accept-Encoding': 'identity' } },
  )

/** Checks the media types, then reads the body. @throws ApiError */
export type ReadBody = (ctx: Context) => Promise<JsonObject>

/** Koa finds no charset in a header that ends with a semicolon, or has a tab, as RFC 9110, 5.6.6 allows. */
const charsetParameter = /;[\t ]*charset="?([^\s";]*)/i

/** The media type is checked before the size, and both before the first byte is read. */
function assertMediaType(ctx: Context): void {
  const { headers } = ctx.req
  const coding = headers['content-encoding']
  // An empty list has no coding (RFC 9110, 5.6.1).
  if (coding !== undefined && !['', 'identity'].includes(coding.toLowerCase()))
    throw unsupportedCoding(coding)
  // Identity is no coding (12.5.3), and koa-bodyparser knows its name in lower case only.
  if (coding !== undefined) delete headers['content-encoding']
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0
  if (headers['content-type'] === undefined && !hasBody) return
  if (headers['content-type'] === JSON_TYPE) return
  const { type } = ctx.request
  const charset = charsetParameter.exec(headers['content-type'] ?? '')?.[1] ?? ''
  const allowed = ctx.method === 'PATCH' ? patchTypes : jsonTypes
  if (!allowed.includes(type.trim().toLowerCase()) || !['', 'utf-8', 'utf8'].includes(charset.toLowerCase()))
    throw unsupportedType(headers['content-type'], allowed)
}

/** Translates an error of raw-body, which koa-bodyparser uses. */
function readingError(error: unknown, maxBytes: number): unknown {
  const type = error instanceof Error && 'type' in error ? error.type : undefined
  if (type === 'entity.too.large') return bodyTooLarge(maxBytes)
  // Not readable: the client has gone away while its token was verified.
  if (type === 'request.aborted' || type === 'request.size.invalid' || type === 'stream.not.readable')
    return endedEarly()
  return error
}

/** @param limits `bodyBytes` applies to one body and is inclusive; `receivingBytes` to all bodies being received */
export function createReadBody({
  bodyBytes,
  receivingBytes,
}: Pick<Config['limits'], 'bodyBytes' | 'receivingBytes'>): ReadBody {
  const withinBudget = createBodyBudget(receivingBytes)
  const options = {
    enableTypes: ['text'],
    extendTypes: { text: patchTypes },
    textLimit: `${bodyBytes}b`,
    // The body is not decoded: koa-bodyparser would silently replace invalid bytes with U+FFFD.
    encoding: '',
  }
  // Not a literal: the types do not know `encoding`.
  const receive = bodyParser(options)
  const parse = createBodyParser()
  async function read(ctx: Context): Promise<unknown> {
    await receive(ctx, async () => {})
    const { body } = ctx.request
    return parse(ctx, Buffer.isBuffer(body) ? body : Buffer.alloc(0))
  }
  return async ctx => {
    assertAcceptsJson(ctx)
    assertMediaType(ctx)
    if (Number(ctx.req.headers['content-length'] ?? 0) > bodyBytes) throw bodyTooLarge(bodyBytes)
    // HTTP/1.0 clients do not support interim responses (RFC 9110, 10.1.1).
    if (ctx.req.headers.expect !== undefined && ctx.req.httpVersion === '1.1') ctx.res.writeContinue()
    // A body counts until it is parsed.
    const value = await withinBudget(ctx.req, () => read(ctx)).catch((error: unknown) => {
      throw readingError(error, bodyBytes)
    })
    if (!isObject(value)) throw notAnObject('the body')
    return value
  }
}
