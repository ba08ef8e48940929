// A request that joins the small fragments of its body. Node.js gives each fragment, such as a chunk of a chunked body, a buffer of
// its own that takes 350 bytes beside its content: one mebibyte in chunks of one byte would take 350 MiB.
import { IncomingMessage } from 'node:http'

/** Most bodies have fewer fragments: these are not joined. */
const MAX_SINGLE = 16
const JOINED_BYTES = 4096

export class IncomingRequest extends IncomingMessage {
  private fragments = 0
  private joined: Buffer | undefined
  private joinedBytes = 0

  /** Is called by the parser with each fragment, and with null after the last one. @returns whether it may read more */
  override push(fragment: Buffer | null): boolean {
    if (fragment === null || fragment.length > JOINED_BYTES || ++this.fragments <= MAX_SINGLE) {
      this.pushJoined()
      return super.push(fragment)
    }
    if (this.joinedBytes + fragment.length > JOINED_BYTES) this.pushJoined()
    this.joined ??= Buffer.allocUnsafe(JOINED_BYTES)
    this.joinedBytes += fragment.copy(this.joined, this.joinedBytes)
    return this.readableLength < this.readableHighWaterMark
  }

  private pushJoined(): void {
    if (this.joined !== undefined) super.push(this.joined.subarray(0, this.joinedBytes))
    this.joined = undefined
    this.joinedBytes = 0
  }
}
