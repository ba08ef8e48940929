// Waits a few turns of the event loop for further items, so that many small reads or writes share one statement or one
// transaction.

/** With this number of items, no further turn is awaited. */
const GATHERED_ITEMS = 16
/** The time after which no further turn is awaited. */
const GATHER_MS = 2

/**
 * Returns a function that calls `start` after a few turns. Calls until then have no effect.
 * @param count returns the number of pending items
 */
export function createGather(count: () => number, start: () => void): () => void {
  let scheduled = false

  /**
   * Starts, or waits for another turn of the event loop if this one has added items. Node.js accepts one connection in each
   * turn: requests on new connections arrive one by one.
   * @param before the number of items a turn ago
   */
  function gather(before: number, sinceMs: number): void {
    const length = count()
    const waits = length > before && length < GATHERED_ITEMS && performance.now() - sinceMs < GATHER_MS
    if (waits) setImmediate(gather, length, sinceMs)
    else {
      scheduled = false
      start()
    }
  }

  return () => {
    if (scheduled) return
    scheduled = true
    // Not a microtask: it would run before the callback of the next socket and see only one request.
    setImmediate(gather, 0, performance.now())
  }
}
