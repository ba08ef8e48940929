// Writes log lines to a stream. Frequent lines are buffered, because a write is more expensive than
// formatting a line. All other lines are written immediately, after the buffered ones, so the order is kept.
import { fstatSync } from 'node:fs'
import type { Writable } from 'node:stream'

/**
 * Several processes write to the same output. Chunks up to these sizes are not interleaved with chunks of
 * other processes: in a pipe (PIPE_BUF, pipe(7)), and in a socket or a file, which pm2 provides.
 */
const PIPE_CHUNK_BYTES = 4096
const CHUNK_BYTES = 32_768
const FLUSH_DELAY_MS = 100
/**
 * Above these, the reader of the stream is stalled, and lines are dropped to limit memory. The frequent lines leave room for the
 * others.
 */
const MAX_PENDING_BYTES = 2 ** 20
const MAX_PENDING_BYTES_OF_ALL = 2 * MAX_PENDING_BYTES

export interface LineOutput {
  write(line: string): void
}

function isPipe(stream: Writable): boolean {
  return 'fd' in stream && typeof stream.fd === 'number' && fstatSync(stream.fd).isFIFO()
}

/**
 * Creates an immediate and a buffered output for the same stream.
 * @param onDropped called with the number of dropped lines when the stream has drained
 */
export function createOutput(stream: Writable, onDropped: (lines: number) => void) {
  const chunkBytes = isPipe(stream) ? PIPE_CHUNK_BYTES : CHUNK_BYTES
  let chunk = Buffer.allocUnsafe(chunkBytes)
  let bytes = 0
  let lines = 0
  let dropped = 0
  let timer: NodeJS.Timeout | undefined
  /** After an error, such as a full disk, the stream may end with a part of a line. */
  let mayBeCut = false

  /** Writes `count` lines, or drops them if more than `maxPendingBytes` wait for the reader. */
  function write(text: string | Buffer, count: number, maxPendingBytes: number): void {
    if (stream.writableLength > maxPendingBytes) {
      if (dropped === 0)
        stream.once('drain', () => {
          onDropped(dropped)
          dropped = 0
        })
      dropped += count
      return
    }
    // The line that is cut must not spoil the next one.
    if (mayBeCut) stream.write('\n')
    mayBeCut = false
    stream.write(text)
  }

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (lines === 0) return
    write(chunk.subarray(0, bytes), lines, MAX_PENDING_BYTES)
    // The stream keeps a reference to the old buffer until it is written.
    chunk = Buffer.allocUnsafe(chunkBytes)
    bytes = 0
    lines = 0
  }

  // Node.js would join chunks that have waited for a slow reader, and a part of the result could be written.
  Object.assign(stream, { _writev: undefined })
  // Replaces pino's own destination, which retries forever at process exit if the reader (pm2's daemon) is gone.
  stream.on('error', () => {
    mayBeCut = true
  })
  process.on('exit', flush)

  return {
    immediate: {
      write(line: string): void {
        flush()
        write(line, 1, MAX_PENDING_BYTES_OF_ALL)
      },
    },
    /** Accepts only ASCII. */
    buffered: {
      write(line: string): void {
        if (bytes + line.length > chunkBytes) flush()
        bytes += chunk.write(line, bytes, 'latin1')
        lines++
        timer ??= setTimeout(flush, FLUSH_DELAY_MS).unref()
      },
    },
  }
}
