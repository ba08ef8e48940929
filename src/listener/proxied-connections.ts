// Accepts connections from proxies that begin with a header of the PROXY protocol, before TLS and HTTP.
import type { Server, Socket } from 'node:net'
import { canonical, type IsTrusted } from './client-address.ts'
import { type ProxyHeader, parseProxyHeader } from './proxy-header.ts'

// Section 2: a few seconds, at least 3 to allow for a TCP retransmission.
const TIMEOUT_MS = 5000

/** Why a connection is closed. */
export type ProxyFault = 'untrusted_proxy' | 'malformed_proxy_header' | 'proxy_header_timeout'

/**
 * Reads the header. The bytes after it are put back into `socket`. A connection that ends before its header is complete
 * is closed silently, because health checks open connections and close them.
 */
function readHeader(
  socket: Socket,
  onHeader: (header: ProxyHeader) => void,
  refuse: (reason: ProxyFault) => void,
): void {
  let received: Buffer = Buffer.alloc(0)
  const close = () => void socket.destroy()
  const timer = setTimeout(() => refuse('proxy_header_timeout'), TIMEOUT_MS)
  const stop = () => {
    clearTimeout(timer)
    socket.off('readable', read).off('end', close).off('error', close).off('close', stop)
  }
  const read = () => {
    const chunk: Buffer | null = socket.read()
    if (chunk === null) return
    received = Buffer.concat([received, chunk])
    const header = parseProxyHeader(received)
    if (header === 'incomplete') return
    if (header === 'malformed') return refuse('malformed_proxy_header')
    stop()
    socket.unshift(received.subarray(header.length))
    onHeader(header)
  }
  socket.on('readable', read).on('end', close).on('error', close).on('close', stop)
}

/**
 * Has each new connection of `server` begin with a header. Only listeners of `connection` that are present already wait
 * for it: those of Node.js, which read TLS and HTTP from the socket. Connections from addresses that are not trusted
 * are destroyed before later listeners are called.
 * @param onHeader is called before the connection is served
 */
export function requireProxyHeaders(
  server: Server,
  isTrusted: IsTrusted,
  onHeader: (socket: Socket, header: ProxyHeader) => void,
  onRefused: (socket: Socket, reason: ProxyFault) => void,
): void {
  const serve = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    const refuse = (reason: ProxyFault) => {
      onRefused(socket, reason)
      socket.destroy()
    }
    // A socket without an address is closed already.
    const peer = canonical(socket.remoteAddress ?? '')
    if (peer === undefined) return void socket.destroy()
    if (!isTrusted(peer)) return refuse('untrusted_proxy')
    readHeader(
      socket,
      header => {
        onHeader(socket, header)
        for (const listener of serve) listener.call(server, socket)
      },
      refuse,
    )
  })
}
