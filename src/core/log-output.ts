// Where log lines go. Those that are said very often gather for a moment, because a write costs more than a line; all
// others are written at once, after what was said before them.
import { fstatSync } from 'node:fs'
import type { Writable } from 'node:stream'

/**
 * Several processes share the output: a piece of this size is never torn by another's, be it in a pipe (pipe(7),
 * PIPE_BUF) or in a socket or file, such as pm2 gives us.
 */
const PIPE_PIECE_BYTES = 4096
const PIECE_BYTES = 32_768
const GATHER_MS = 100
/** Over this nobody reads: lines that are said often are dropped then, lest they fill the memory. */
const MAX_WAITING_BYTES = 2 ** 20

export interface LineOutput {
  write(line: string): void
}

function isPipe(stream: Writable): boolean {
  return 'fd' in stream && typeof stream.fd === 'number' && fstatSync(stream.fd).isFIFO()
}

/** @param lost is told how many lines were dropped, once the reader reads again */
export function createOutput(
  stream: Writable,
  lost: (lines: number) => void,
): { now: LineOutput; soon: LineOutput } {
  const pieceBytes = isPipe(stream) ? PIPE_PIECE_BYTES : PIECE_BYTES
  let piece = Buffer.allocUnsafe(pieceBytes)
  let bytes = 0
  let lines = 0
  let dropped = 0
  let timer: NodeJS.Timeout | undefined

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (lines === 0) return
    if (stream.writableLength <= MAX_WAITING_BYTES) {
      stream.write(piece.subarray(0, bytes))
      // The old one is not the stream's to give back before it is written.
      piece = Buffer.allocUnsafe(pieceBytes)
    } else {
      if (dropped === 0)
        stream.once('drain', () => {
          lost(dropped)
          dropped = 0
        })
      dropped += lines
    }
    bytes = 0
    lines = 0
  }

  // pino's own destination tries for ever, at the end of the process, to write to a reader that has gone (pm2's daemon).
  stream.on('error', () => {})
  process.on('exit', flush)

  return {
    now: {
      write(line: string): void {
        flush()
        stream.write(line)
      },
    },
    /** For lines of ASCII. */
    soon: {
      write(line: string): void {
        if (bytes + line.length > pieceBytes) flush()
        bytes += piece.write(line, bytes, 'latin1')
        lines++
        timer ??= setTimeout(flush, GATHER_MS).unref()
      },
    },
  }
}
