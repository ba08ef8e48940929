// The identity of a request in its response and in the log: its request id and its W3C trace context.
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'

/** Request ids that are accepted from clients. Others are replaced. */
export const requestIdPattern = /^[A-Za-z0-9._~+/=-]{1,128}$/

/** Returns the valid Request-Id of the client, or a new UUID. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const sent = headers['request-id']
  return typeof sent === 'string' && requestIdPattern.test(sent) ? sent : randomUUID()
}

/** The ids of a `traceparent` header: https://www.w3.org/TR/trace-context/#traceparent-header. */
interface Trace {
  readonly traceId: string
  /** The span of the client that sent this request. */
  readonly parentId: string
}

const traceparentPattern =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/

/** Returns the trace context of a request, or undefined if `traceparent` is missing or invalid. */
export function traceOf({ traceparent }: IncomingHttpHeaders): Trace | undefined {
  if (typeof traceparent !== 'string') return undefined
  const [, version, traceId, parentId, more] = traceparentPattern.exec(traceparent) ?? []
  // Only versions after 00 may have additional fields.
  if (traceId === undefined || parentId === undefined || (version === '00' && more !== undefined))
    return undefined
  return { traceId, parentId }
}
