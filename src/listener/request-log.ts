// The request log: one line per request. A line contains the route, but never the path or the query, because those
// may contain personal data.
import type { ServerResponse } from 'node:http'
import type { Config } from '../config/config.ts'
import { type ApiError, errorBody } from '../core/api-error.ts'
import { createTimestamp, type Log } from '../core/log.ts'
import type { LineOutput } from '../core/log-output.ts'
import { networkOf } from './client-address.ts'
import type { ProxyFault } from './proxied-connections.ts'
import { traceOf } from './request-identity.ts'

declare module 'node:http' {
  interface ServerResponse {
    /** The address of the client, which trusted proxies may have reported; undefined if its connection has ended. */
    client?: string | undefined
    /** The path pattern of the matched route, such as `/v1/users/:user_id`; undefined if no route matches. */
    route?: string | undefined
    /** The name of the caller; undefined if the API is open or the request has no valid token. */
    caller?: string | undefined
    /** The error that was sent instead of this response, because the body of its request is not valid or late. */
    rejection?: ApiError
  }
}

/** How much of a client's address the log shows. */
type Shown = Config['log']['client']

export type RequestLog = ReturnType<typeof createRequestLog>

function bodyBytes(response: ServerResponse): number {
  const { req, rejection } = response
  if (req.method === 'HEAD') return 0
  if (rejection === undefined) return Number(response.getHeader('content-length') ?? 0)
  return Buffer.byteLength(errorBody(rejection, String(response.getHeader('request-id'))))
}

/** Returns what the log shows of a client's address; undefined if nothing. */
export function loggedClient(address: string | undefined, shown: Shown): string | undefined {
  if (address === undefined || shown === 'off') return undefined
  return shown === 'full' ? address : networkOf(address)
}

/** Returns JSON in ASCII. */
function asciiJson(value: unknown): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replaceAll(/[\x7f-\uffff]/g, escaped)
}

/**
 * Creates a request log. Its lines have the format of `log`, but are concatenated here, which is three times as
 * fast as pino. Only the names of the node and of a caller need JSON escaping: the parser accepts only known methods, and
 * request ids are checked.
 * @param log determines whether lines are written: its level must include `info`
 * @param output receives each line
 */
export function createRequestLog(log: Log, output: LineOutput, shown: Shown) {
  const now = createTimestamp()
  // pino's bindings have no pid.
  const fields = asciiJson({ ...log.bindings(), pid: process.pid, msg: 'request' }).slice(1, -1)

  function clientField(address: string | undefined): string {
    const client = loggedClient(address, shown)
    return client === undefined ? '' : `,"client":"${client}"`
  }

  return {
    /**
     * @param port label of the data port
     * @param status undefined if the connection ended before the response was complete
     */
    logResponse(
      port: string,
      response: ServerResponse,
      status: number | undefined,
      durationMs: number,
    ): void {
      if (!log.isLevelEnabled('info')) return
      const { method, headers } = response.req
      const { client, route, caller, rejection } = response
      const requestId = response.getHeader('request-id')
      const trace = traceOf(headers)
      output.write(
        `{"level":30${now()},${fields},"port":"${port}","method":"${method}"` +
          (route === undefined ? '' : `,"route":"${route}"`) +
          `,"status":${status ?? '"aborted"'}` +
          (rejection === undefined ? '' : `,"refused":"${rejection.code}"`) +
          `,"durationMs":${Math.round(durationMs * 100) / 100}` +
          `,"bytes":${bodyBytes(response)}` +
          clientField(client) +
          (caller === undefined ? '' : `,"caller":${asciiJson(caller)}`) +
          (requestId === undefined ? '' : `,"requestId":"${requestId}"`) +
          (trace === undefined ? '' : `,"traceId":"${trace.traceId}","parentId":"${trace.parentId}"`) +
          '}\n',
      )
    },

    /** Logs a connection that is closed because it does not begin with a PROXY header of a trusted proxy. */
    logRefusal(port: string, client: string | undefined, reason: ProxyFault): void {
      if (!log.isLevelEnabled('info')) return
      output.write(
        `{"level":30${now()},${fields},"port":"${port}","refused":"${reason}"${clientField(client)}}\n`,
      )
    },

    /** Logs rejected input, which need not be a request: the line has no method and no route. */
    logRejection(
      port: string,
      client: string | undefined,
      { status, code }: ApiError,
      requestId: string,
    ): void {
      if (!log.isLevelEnabled('info')) return
      output.write(
        `{"level":30${now()},${fields},"port":"${port}","status":${status},"refused":"${code}"` +
          `${clientField(client)},"requestId":"${requestId}"}\n`,
      )
    },
  }
}
