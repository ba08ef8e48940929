// Puts all that arrives at an HTTP server through the connections of its port: requests, also too large ones, input that
// is not valid HTTP, and CONNECT.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { ApiError } from '../core/api-error.ts'
import type { Connections } from './connections.ts'
import {
  answerRaw,
  isPlainRequest,
  isTimeout,
  isTlsError,
  type ParserError,
  parserError,
  plainRequest,
} from './parser-errors.ts'
import { requestIdOf } from './request-identity.ts'
import { type RequestLimits, sizeError } from './request-size.ts'

interface Requests {
  /** Serves a request when all earlier ones on its connection are complete. */
  readonly listener: RequestListener
  readonly limits: RequestLimits
  /** The response to CONNECT, which no port serves. */
  readonly connectNotAllowed: ApiError
  /**
   * Is called for each request when it arrives, which is before `listener` if others are ahead of it.
   * @param peer the address of the connection's other end; undefined if it has ended
   */
  onArrival?(response: ServerResponse, peer: string | undefined): void
  /**
   * Is called for each error that is sent without `listener`, except one in the body of a request: it is the `rejection` of its
   * response.
   * @param request undefined if the input is no request
   */
  onRejected?(socket: Socket, error: ApiError, requestId: string, request?: IncomingMessage): void
}

/** @param connections tracks the sockets of `server` already */
export function serveRequests(
  server: Server,
  connections: Connections,
  { listener, limits, connectNotAllowed, onArrival, onRejected }: Requests,
): void {
  const reject = (socket: Socket, error: ApiError, request?: IncomingMessage): void => {
    connections.rejectInput(socket, replaced => {
      const knownId = replaced?.getHeader('request-id')
      const newId = () => (request === undefined ? randomUUID() : requestIdOf(request))
      const requestId = typeof knownId === 'string' ? knownId : newId()
      if (replaced === undefined) onRejected?.(socket, error, requestId, request)
      else {
        replaced.rejection = error
        replaced.setHeader('Request-Id', requestId)
      }
      answerRaw(socket, error, requestId, request?.method)
    })
  }
  const rejectRequest = (request: IncomingMessage, error: ApiError): void =>
    reject(request.socket, error, request)
  const serve: RequestListener = (request, response) => {
    onArrival?.(response, connections.get(request.socket)?.peer())
    const error = sizeError(request, limits)
    if (error !== undefined) rejectRequest(request, error)
    else connections.requestStarted(request.socket, response, () => listener(request, response))
  }
  server.on('request', serve)
  // `listener` sends `100 Continue` when it starts to read the body, and rejects all other expectations.
  server.on('checkContinue', serve)
  server.on('checkExpectation', serve)
  server.on('clientError', (error: ParserError, socket) => {
    // Node.js closes the TCP socket in the next microtask: a client that still sends can lose the response.
    if (socket instanceof TLSSocket && isPlainRequest(error)) return reject(socket._parent, plainRequest())
    if (!(socket instanceof Socket) || isTlsError(error)) return void socket.destroy()
    const connection = connections.get(socket)
    const rejectError = () => reject(socket, parserError(error, limits), connection?.receiving())
    if (connection === undefined || !isTimeout(error)) rejectError()
    else connection.requestTimedOut(server.requestTimeout, rejectError)
  })
  server.on('connect', request => {
    connections.get(request.socket)?.takeOver()
    rejectRequest(request, connectNotAllowed)
  })
}
