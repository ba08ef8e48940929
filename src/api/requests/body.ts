// Reads request bodies. koa-bodyparser reads the bytes and limits their number; this file checks that they are JSON in UTF-8.
import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { Context } from 'koa'
import bodyParser from 'koa-bodyparser'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import { isObject, type JsonObject } from '../../core/json-object.ts'
import { quoted } from '../../core/quoted.ts'
import { isGone } from '../../listener/peer.ts'
import { bodyTooLarge, notAnObject, notJson } from '../errors.ts'
import { assertAcceptsJson } from '../respond.ts'

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

/** More than one record needs. A longer body waits for its turn to be parsed. */
const MAX_SHORT_BYTES = 4096
/** A suspension of the process can fall into the parsing of a body, and counts as a part of it. */
const MAX_PAUSE_MS = 1000

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

const utf8 = new TextDecoder('utf-8', { fatal: true })

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch (error) {
    const reason =
      bytes.length === 0 ? 'it is empty' : error instanceof SyntaxError ? error.message : 'it is not UTF-8'
    throw notJson(reason)
  }
}

/** Nothing of it reaches the client, whose connection has ended. */
const endedEarly = () => new ApiError('malformed_request', 'the body ended early')

/** Translates an error of raw-body, which koa-bodyparser uses. */
function readingError(error: unknown, tooLarge: () => ApiError): unknown {
  const type = error instanceof Error && 'type' in error ? error.type : undefined
  if (type === 'entity.too.large') return tooLarge()
  // Not readable: the client has gone away while its token was verified.
  if (type === 'request.aborted' || type === 'request.size.invalid' || type === 'stream.not.readable')
    return endedEarly()
  return error
}

/**
 * Limits the total size of all bodies that this worker is receiving: beyond it, the largest ones are refused. Only received
 * bytes count. Clients that announce large bodies and send nothing, or send all but their last bytes, do not block all others.
 */
function createBodyBudget(maxBytes: number) {
  const receiving = new Set<{ bytes: number; readonly refuse: () => void }>()
  let totalBytes = 0

  // The connection closes, because the rest of the body may still arrive.
  const overBudget = () =>
    new ApiError('unavailable', 'the service is receiving too many request bodies, please try again', {
      headers: { 'Retry-After': '1', Connection: 'close' },
    })

  function refuseLargest(): void {
    const [first, ...others] = receiving
    if (first === undefined) return
    const largest = others.reduce((most, body) => (body.bytes > most.bytes ? body : most), first)
    receiving.delete(largest)
    totalBytes -= largest.bytes
    largest.refuse()
  }

  /** @throws ApiError `unavailable` during `read`, or the error of `read` */
  return async <T>(request: IncomingMessage, read: () => Promise<T>): Promise<T> => {
    let refuse = (): void => {}
    const refused = new Promise<never>((_, reject) => {
      refuse = () => {
        reject(overBudget())
        // raw-body, or the parser, drops what was read. The connection may stay open for some seconds.
        request.emit('aborted')
      }
    })
    const body = { bytes: 0, refuse }
    const count = ({ length }: Buffer): void => {
      if (!receiving.has(body)) return
      body.bytes += length
      totalBytes += length
      if (totalBytes > maxBytes) refuseLargest()
    }
    receiving.add(body)
    request.on('data', count)
    try {
      return await Promise.race([refused, read()])
    } finally {
      request.off('data', count)
      if (receiving.delete(body)) totalBytes -= body.bytes
    }
  }
}

/**
 * Returns a function that parses long bodies one after another, and leaves as much time for everything else. A megabyte of
 * brackets takes hundreds of milliseconds. When many such bodies arrived together, the worker would send no heartbeat for so
 * long that it would be killed.
 */
function createParser() {
  /** Resolves when the next long body can be parsed. */
  let turn = Promise.resolve()

  return async ({ req, res }: Context, body: Buffer): Promise<unknown> => {
    if (body.length <= MAX_SHORT_BYTES) return parseJson(body)
    // The functions below refer to the body only by this variable: that of a client that has gone leaves the memory before its turn.
    let bytes: Buffer | undefined = body
    return new Promise((resolve, reject) => {
      const drop = () => {
        bytes = undefined
        reject(endedEarly())
      }
      req.once('aborted', drop)
      // For a request that is complete, Node.js does not emit 'aborted' when the connection ends.
      res.once('close', drop)
      turn = turn.then(async () => {
        if (bytes === undefined) return
        const startMs = performance.now()
        try {
          // A client that has only ended its side still gets its response.
          if (isGone(req.socket)) throw endedEarly()
          resolve(parseJson(bytes))
        } catch (error) {
          reject(error)
        } finally {
          // They would keep the parsed body in memory as long as the request, which can wait in the lane.
          req.off('aborted', drop)
          res.off('close', drop)
        }
        await delay(Math.min(MAX_PAUSE_MS, performance.now() - startMs))
      })
    })
  }
}

/** @param limits `bodyBytes` applies to one body and is inclusive; `receivingBytes` to all bodies being received */
export function createReadBody(limits: Pick<Config['limits'], 'bodyBytes' | 'receivingBytes'>): ReadBody {
  const limitBytes = limits.bodyBytes
  const withinBudget = createBodyBudget(limits.receivingBytes)
  const options = {
    enableTypes: ['text'],
    extendTypes: { text: patchTypes },
    textLimit: `${limitBytes}b`,
    // The body is not decoded: koa-bodyparser would silently replace invalid bytes with U+FFFD.
    encoding: '',
  }
  const receive = bodyParser(options)
  const parse = createParser()
  async function read(ctx: Context): Promise<unknown> {
    await receive(ctx, async () => {})
    const { body } = ctx.request
    return parse(ctx, Buffer.isBuffer(body) ? body : Buffer.alloc(0))
  }
  const tooLarge = () => bodyTooLarge(limitBytes)
  return async ctx => {
    assertAcceptsJson(ctx)
    assertMediaType(ctx)
    if (Number(ctx.req.headers['content-length'] ?? 0) > limitBytes) throw tooLarge()
    // HTTP/1.0 clients do not support interim responses (RFC 9110, 10.1.1).
    if (ctx.req.headers.expect !== undefined && ctx.req.httpVersion === '1.1') ctx.res.writeContinue()
    // A body counts until it is parsed.
    const value = await withinBudget(ctx.req, () => read(ctx)).catch((error: unknown) => {
      throw readingError(error, tooLarge)
    })
    if (!isObject(value)) throw notAnObject('the body')
    return value
  }
}
