// A raw TCP or TLS connection for what HTTP clients do not offer: partial or invalid requests, pauses, pipelining.
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'

export interface RawOptions {
  tls?: boolean
  /** The TLS session of an earlier connection, to resume it. */
  session?: Buffer
  /** The address of this end, without TLS. */
  localAddress?: string
  /** `end` closes only this side. */
  allowHalfOpen?: boolean
}

export type Raw = Awaited<ReturnType<typeof connect>>

/** Connects to `port` on the loopback interface. Certificates are not verified. */
export async function connect(port: number, options: RawOptions = {}) {
  const socket = options.tls
    ? tls.connect({
        port,
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ...(options.session !== undefined && { session: options.session }),
      })
    : net.connect({ port, host: '127.0.0.1', localAddress: options.localAddress })
  socket.allowHalfOpen = options.allowHalfOpen === true
  let text = ''
  // A reset counts as the end of the connection. The text received before it stays available.
  socket.on('error', () => {})
  socket.setEncoding('utf8').on('data', chunk => (text += chunk))
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  await once(socket, options.tls ? 'secureConnect' : 'connect')

  async function untilReceived(expected: string, isReceived: () => boolean): Promise<void> {
    while (!isReceived()) {
      if (socket.closed)
        throw new Error(`the server closed the connection before ${expected}: ${JSON.stringify(text)}`)
      await Promise.race([once(socket, 'data'), closed])
    }
  }

  async function answer(): Promise<string> {
    await untilReceived('the headers', () => text.includes('\r\n\r\n'))
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
    const end = text.indexOf('\r\n\r\n') + 4 + length
    await untilReceived('the end of the body', () => text.length >= end)
    const received = text.slice(0, end)
    text = text.slice(end)
    return received
  }

  return {
    socket,
    /** Resolves when the connection is closed. */
    closed,
    isClosed: () => socket.closed || socket.readableEnded,
    write: (part: string | Buffer) => void socket.write(part),
    /** Returns the text received so far that `answer` has not consumed. */
    text: () => text,
    /** Waits until the received text matches. @throws Error if the server closes the connection before */
    async until(pattern: RegExp): Promise<string> {
      await untilReceived(`${pattern}`, () => pattern.test(text))
      return text
    },
    /** Waits for the next response, and removes it from the received text. @throws Error as `until` */
    answer,
    /** Sends a request, or the rest of one, and waits for the next response. @throws Error as `until` */
    ask(part: string | Buffer): Promise<string> {
      socket.write(part)
      return answer()
    },
  }
}
