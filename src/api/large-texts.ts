// Spreads the work of large responses, so that other requests are served in between.

/** Length of a text, in UTF-16 units or bytes, up to which it does not count as large. */
const MAX_SMALL_LENGTH = 262_144

let last = Promise.resolve()

/** Returns a text that several responses share: its bytes if it is large, which Node.js would make for each response. */
export const toShared = (text: string): string | Buffer =>
  text.length > MAX_SMALL_LENGTH ? Buffer.from(text) : text

/**
 * Resolves when a response can be made of this text: at once if the text is small. Each large one of the worker gets a turn of
 * the event loop. Requests whose records were read together would otherwise be answered in one turn, which holds up all
 * others, and takes their memory before any limit is checked.
 */
export async function turnFor({ length }: string | Buffer): Promise<void> {
  if (length <= MAX_SMALL_LENGTH) return
  last = last.then(() => new Promise(resolve => setImmediate(resolve)))
  await last
}
