// How many bytes of a connection belong to no request that has finished, and how many its client may not have read.
import type { Socket } from 'node:net'

/** @param tcpSocket that of a TLS socket */
export function createSocketBytes(socket: Socket, tcpSocket?: Socket) {
  /** Increases with all that is read. A TLS socket counts a record when it is complete, the TCP socket each part of it. */
  const read = () => socket.bytesRead + (tcpSocket?.bytesRead ?? 0)
  /** `read()` when the last request, the handshake or the PROXY header finished. More bytes belong to another request. */
  let readBefore = read()
  /** `socket.bytesWritten` when the last response was complete, or when nothing waited. */
  let writtenBefore = 0

  function responseFinished(): void {
    writtenBefore = socket.bytesWritten
  }
  socket.on('drain', responseFinished)

  return {
    /** Whether a request has begun to arrive since the last one finished. */
    hasNext: () => read() !== readBefore,
    /** The bytes that may wait for the client to read: all since none waited. `writableLength` counts UTF-16 units. */
    unread(): number {
      // Small parts of a stream may all be sent at once: then no `drain` follows.
      if (socket.writableLength === 0) writtenBefore = socket.bytesWritten
      return socket.bytesWritten - writtenBefore
    },
    responseFinished,
    /** Notes that everything read so far belongs to requests that have finished. */
    requestFinished(): void {
      readBefore = read()
    },
    /** Notes that a PROXY header has been read. What follows it is still in the buffer of the socket. */
    headerRead(): void {
      readBefore = read() - socket.readableLength
    },
  }
}
