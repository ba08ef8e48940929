// A request that joins the small fragments of its body. Node.js gives each fragment, such as a chunk of a chunked body, a buffer of
// its own that takes 350 bytes beside its content: one mebibyte in chunks of one byte would take 350 MiB.
import { IncomingMessage } from 'node:http'

/** Most bodies have fewer fragments: these are not joined. */
const MAX_SINGLE = 16
const JOINED_BYTES = 4096
/** After so many fragments, a request waits for its turn to be read further. */
const TURN_FRAGMENTS = 1024

/** Returns the class of the requests of one server. */
export function createRequestClass(): typeof IncomingMessage {
  /**
   * The requests that wait for their turn. Each turn of the event loop reads from one of them: the fragments of one read can take
   * 10 ms, and Node.js would read 32 times from each connection before anything else is served.
   */
  const waiting: IncomingRequest[] = []

  function readNext(): void {
    waiting.shift()?.readOn()
    if (waiting.length > 0) setImmediate(readNext)
  }

  class IncomingRequest extends IncomingMessage {
    private fragments = 0
    private joined: Buffer | undefined
    private joinedBytes = 0
    private isWaiting = false

    /**
     * Is called by the parser with each fragment, and with null after the last one. Joined fragments reach the reader when their part
     * is full, or with a large fragment or the end.
     * @returns whether the parser may read more
     */
    override push(fragment: Buffer | null): boolean {
      if (fragment === null || fragment.length > JOINED_BYTES || ++this.fragments <= MAX_SINGLE) {
        this.pushJoined()
        return super.push(fragment)
      }
      if (this.joinedBytes + fragment.length > JOINED_BYTES) this.pushJoined()
      this.joined ??= Buffer.allocUnsafe(JOINED_BYTES)
      this.joinedBytes += fragment.copy(this.joined, this.joinedBytes)
      if (this.fragments % TURN_FRAGMENTS === 0) this.waitForTurn()
      return !this.isWaiting && this.readableLength < this.readableHighWaterMark
    }

    /** Is called by the stream when it needs more. */
    override _read(size: number): void {
      if (!this.isWaiting) super._read(size)
    }

    readOn(): void {
      this.isWaiting = false
      if (this.readableLength < this.readableHighWaterMark) super._read(0)
    }

    /** A body that nothing reads stops arriving at the limit of the stream. To read it further would mark it as consumed. */
    private waitForTurn(): void {
      if (this.isWaiting || this.readableFlowing === null) return
      this.isWaiting = true
      if (waiting.push(this) === 1) setImmediate(readNext)
    }

    private pushJoined(): void {
      if (this.joined !== undefined) super.push(this.joined.subarray(0, this.joinedBytes))
      this.joined = undefined
      this.joinedBytes = 0
    }
  }
  return IncomingRequest
}
