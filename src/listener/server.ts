// The HTTP or HTTPS server of a data port or a control port, with its limits, its time-outs and its TLS settings.
import { constants } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { Config } from '../config/config.ts'
import type { KeyPair } from '../core/messages.ts'
import { createRequestClass } from './incoming-request.ts'
import { isGone } from './peer.ts'
import { maxParsedHeaders, type RequestLimits } from './request-size.ts'

const TIMEOUT_CHECK_MS = 500
// The application enforces the exact limits, with detailed errors. The parser limit is larger by this amount and
// only bounds memory.
const PARSER_SLACK_BYTES = 65_536

export interface TlsSettings {
  readonly keyPair: KeyPair
  /** 48 bytes, the same in every worker: a TLS session can be resumed by any of them. */
  readonly ticketKeys: Buffer
}

export interface ServerOptions {
  readonly config: { readonly limits: RequestLimits; readonly timeouts: Config['timeouts'] }
  /** Undefined for http. */
  readonly tls?: TlsSettings | undefined
}

// Only ciphers with forward secrecy and authenticated encryption, as in the intermediate configuration of
// https://wiki.mozilla.org/Security/Server_Side_TLS.
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  ...['ECDSA', 'RSA'].flatMap(key =>
    ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map(cipher => `ECDHE-${key}-${cipher}`),
  ),
].join(':')

/** Returns the options of Node.js for these settings. */
export const secureContext = ({ keyPair, ticketKeys }: TlsSettings) =>
  ({
    cert: keyPair.certificate,
    key: keyPair.key,
    ticketKeys,
    // Sessions are resumed only where it is the same. By default, it depends on the path and the arguments of the process.
    sessionIdContext: 'users-api',
    minVersion: 'TLSv1.2',
    // Only TLS 1.2 has it. Node.js would end the timeout of the connection after it.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ciphers,
  }) as const

function destroyIfReset(socket: Socket): void {
  if (isGone(socket)) socket.destroy()
}

/** A reset that arrives together with other input looks like the end of the client's side. */
const destroyAtReset = (socket: Socket) => socket.once('end', () => destroyIfReset(socket))

/**
 * Has a client that ends its side of the connection get the responses that are due, as RFC 9112, 9.6 asks. Then its
 * connection is closed. The types do not know this property of `http.Server`, which Node.js 0.5 to 26 have.
 */
export function keepHalfOpen(server: http.Server): void {
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connection', destroyAtReset)
  // From the end of the handshake on: a connection that ends before it has nothing to wait for.
  server.on('secureConnection', (socket: Socket) => {
    socket.allowHalfOpen = true
    destroyAtReset(socket)
    // If the client has reset the connection before the last part of the handshake is sent, Node.js reports no error, and sends
    // nothing more: responses would wait for the timeout.
    setImmediate(destroyIfReset, socket)
  })
}

/** Creates a server that does not listen yet. */
export function createServer(options: ServerOptions): http.Server | https.Server {
  const { config, tls } = options
  const { limits, timeouts } = config
  const settings = {
    maxHeaderSize: limits.urlBytes + limits.headerBytes + PARSER_SLACK_BYTES,
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    // Data ports reject requests without Host, with a JSON body. Control ports answer them.
    requireHostHeader: false,
    IncomingMessage: createRequestClass(),
  }
  const server =
    tls === undefined
      ? http.createServer(settings)
      : https.createServer({
          ...settings,
          ...secureContext(tls),
          handshakeTimeout: timeouts.headersMs,
        })
  keepHalfOpen(server)
  // Without a listener, the parser of Node.js reads the TLS socket directly. While a long response is being sent, Node.js pauses the
  // parser, but the socket hands over all records that it has received, and the parser rejects them.
  server.on('secureConnection', (socket: Socket) => void socket.on('data', () => {}))
  // Sockets are destroyed after this time without activity. The request timeout is shorter: it comes first and responds 408.
  server.timeout = timeouts.requestMs + 4 * TIMEOUT_CHECK_MS
  server.maxHeadersCount = maxParsedHeaders(limits)
  return server
}
