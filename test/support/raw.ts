// A bare connection, plain or TLS, for what no HTTP client would do: half requests, silence, pipelining.
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'

export interface RawOptions {
  tls?: boolean
  /** Of an earlier connection, to resume its TLS session. */
  session?: Buffer
}

export type Raw = Awaited<ReturnType<typeof connect>>

/** Connects to `port` on the loopback interface; a certificate is not verified. */
export async function connect(port: number, options: RawOptions = {}) {
  const socket = options.tls
    ? tls.connect({
        port,
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ...(options.session !== undefined && { session: options.session }),
      })
    : net.connect(port, '127.0.0.1')
  let text = ''
  // A reset says as much as an end; what came before it counts.
  socket.on('error', () => {})
  socket.setEncoding('utf8').on('data', chunk => (text += chunk))
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  await once(socket, options.tls ? 'secureConnect' : 'connect')

  return {
    socket,
    /** Resolves when the server has hung up. */
    closed,
    isClosed: () => socket.closed || socket.readableEnded,
    write: (part: string) => void socket.write(part),
    /** All that came so far. */
    text: () => text,
    /** Waits until what came matches; throws where the server hangs up before. */
    async until(pattern: RegExp): Promise<string> {
      while (!pattern.test(text)) {
        if (socket.closed) throw new Error(`the server hung up before ${pattern}: ${JSON.stringify(text)}`)
        await Promise.race([once(socket, 'data'), closed])
      }
      return text
    },
    /** Waits for the next response, and takes it from what came. */
    async answer(): Promise<string> {
      const pattern = /\r\n\r\n/
      while (!pattern.test(text)) await Promise.race([once(socket, 'data'), closed.then(() => fail(text))])
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
      const end = text.indexOf('\r\n\r\n') + 4 + length
      while (text.length < end) await Promise.race([once(socket, 'data'), closed.then(() => fail(text))])
      const answer = text.slice(0, end)
      text = text.slice(end)
      return answer
    },
  }
}

function fail(text: string): never {
  throw new Error(`the server hung up after ${JSON.stringify(text)}`)
}
