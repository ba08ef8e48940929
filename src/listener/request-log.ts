// One line a request. It names the route, never the path or the query: those may have in them what is nobody's business.
import type { ServerResponse } from 'node:http'
import type { ApiError } from '../core/api-error.ts'
import { createTimestamp, type Log } from '../core/log.ts'
import type { LineOutput } from '../core/log-output.ts'
import { traceOf } from './trace.ts'

declare module 'node:http' {
  interface ServerResponse {
    /** The pattern of the path that answers, such as `/v1/users/:id`; undefined where there is none. */
    route?: string | undefined
  }
}

export type RequestLog = ReturnType<typeof createRequestLog>

function bodyBytes(response: ServerResponse): number {
  return response.req.method === 'HEAD' ? 0 : Number(response.getHeader('content-length') ?? 0)
}

/**
 * The lines are put together by hand, which is three times as fast as by pino: nothing in them needs an escape, for the
 * parser knows every method, and a request id that could do harm is not taken over.
 * @param log says whether there are lines, at the level `info`; they look like its own
 * @param output takes each line
 */
export function createRequestLog(log: Log, output: LineOutput) {
  const now = createTimestamp()
  const role = `"role":"worker","pid":${process.pid},"msg":"request"`

  return {
    /**
     * @param port the label
     * @param status undefined where the client went away before its answer was sent
     */
    answered(port: string, response: ServerResponse, status: number | undefined, durationMs: number): void {
      if (!log.isLevelEnabled('info')) return
      const { method, headers } = response.req
      const { route } = response
      const requestId = response.getHeader('request-id')
      const trace = traceOf(headers)
      output.write(
        `{"level":30${now()},${role},"port":"${port}","method":"${method}"` +
          (route === undefined ? '' : `,"route":"${route}"`) +
          `,"status":${status ?? '"aborted"'},"durationMs":${Math.round(durationMs * 100) / 100}` +
          `,"bytes":${bodyBytes(response)}` +
          (requestId === undefined ? '' : `,"requestId":"${requestId}"`) +
          (trace === undefined ? '' : `,"traceId":"${trace.traceId}","parentId":"${trace.parentId}"`) +
          '}\n',
      )
    },

    /** What the parser has refused: there is no more to know of it. */
    refused(port: string, { status, code }: ApiError, requestId: string): void {
      if (!log.isLevelEnabled('info')) return
      output.write(
        `{"level":30${now()},${role},"port":"${port}","status":${status},"refused":"${code}","requestId":"${requestId}"}\n`,
      )
    },
  }
}
