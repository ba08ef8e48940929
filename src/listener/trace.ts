// The trace that a request belongs to, as its client names it: https://www.w3.org/TR/trace-context/#traceparent-header.
import type { IncomingHttpHeaders } from 'node:http'

export interface Trace {
  readonly traceId: string
  /** The client's part of the trace, which this request was sent in. */
  readonly parentId: string
}

const format = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/

/** @returns undefined where there is none, or none that is valid: that is ignored */
export function traceOf({ traceparent }: IncomingHttpHeaders): Trace | undefined {
  if (typeof traceparent !== 'string') return undefined
  const [, version, traceId, parentId, more] = format.exec(traceparent) ?? []
  // Only later versions may say more.
  if (traceId === undefined || parentId === undefined || (version === '00' && more !== undefined))
    return undefined
  return { traceId, parentId }
}
