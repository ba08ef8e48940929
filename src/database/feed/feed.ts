// The change feed as the readers of this process see it. The newest events are in memory. While readers wait, one read
// serves all of them; none of them holds a database connection.
import { MAX_ID } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import { createNewestEvents } from './newest-events.ts'
import { createPortionReader, MAX_READS, type Portion, READ_EVENTS } from './portion.ts'

/**
 * The pause after a read for waiting readers grows with the number of those that it has woken, because their answers follow: while
 * there is always something new, 1,000 readers get it five times a second.
 */
const PAUSE_MS_PER_READER = 0.2
const MIN_PAUSE_MS = 20
const MAX_PAUSE_MS = 200
/** Reads continue for so long after the last reader has waited, because it usually comes back. */
const LINGER_MS = 5000
/** Readers do not wait longer for one read, whose connection can be dead: the next one uses another connection. */
const PATIENCE_MS = 1000

export type Feed = ReturnType<typeof createFeed>

export function createFeed(database: Database) {
  const newest = createNewestEvents()
  const readComplete = createPortionReader(database)
  let neededMs = -Infinity
  /** Reads in progress for waiting readers. */
  let reading = 0
  let timer: NodeJS.Timeout | undefined
  const waiting = new Set<{ readonly after: number; readonly wake: () => void }>()

  const pauseMs = (woken: number) =>
    Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, PAUSE_MS_PER_READER * woken))

  /** @returns the number of readers that it has woken */
  function remember(portion: Portion): number {
    const isBroken = newest.add(portion)
    const readers = waiting.size
    for (const { after, wake } of waiting) if (isBroken || newest.head() > after) wake()
    return readers - waiting.size
  }

  /** Reads what is new. @returns the number of readers that it has woken */
  async function readNew(): Promise<number> {
    let found: Portion
    let woken = 0
    do {
      const head = newest.head()
      found = await readComplete(head, READ_EVENTS)
      // Another read was faster.
      if (newest.head() !== head) return woken
      woken += remember(found)
    } while (found.events.length === READ_EVENTS)
    return woken
  }

  /** Reads what is new, and goes on while readers wait. */
  async function follow(): Promise<void> {
    clearTimeout(timer)
    timer = setTimeout(follow, PATIENCE_MS).unref()
    if (reading === MAX_READS) return
    reading++
    // `database` logs outages. Readers go on waiting.
    const woken = await readNew().catch(() => 0)
    reading--
    clearTimeout(timer)
    if (waiting.size > 0) neededMs = performance.now()
    const isNeeded = performance.now() - neededMs < LINGER_MS
    timer = isNeeded ? setTimeout(follow, pauseMs(woken)).unref() : undefined
  }

  return {
    /**
     * Returns up to `limit` events after a position, and the positions that are valid. Without a position, it begins with
     * the oldest event. Returns undefined if the position is not valid.
     * @param isFinal whether the reader does not go on to wait: fewer events are then all that are committed. Memory can lack
     *   those of the last moment
     * @throws ApiError `unavailable`
     */
    async read(after: number | undefined, limit: number, isFinal = false): Promise<Portion | undefined> {
      const known = after === undefined ? undefined : newest.after(after, limit)
      if (known !== undefined && (!isFinal || known.events.length === limit)) return known
      const portion = await readComplete(after, limit)
      return after === undefined || (after >= portion.floor && after <= portion.head) ? portion : undefined
    },

    /** Returns the newest position. @throws ApiError `unavailable` */
    latest: async (): Promise<number> => (await readComplete(MAX_ID, 1)).head,

    /** Resolves when there is an event after the position, when positions have expired, or when `signal` is aborted. */
    async changed(after: number, signal: AbortSignal): Promise<void> {
      if (signal.aborted || newest.hasEventAfter(after)) return
      await new Promise<void>(resolve => {
        const wake = () => {
          waiting.delete(waiter)
          signal.removeEventListener('abort', wake)
          resolve()
        }
        const waiter = { after, wake }
        signal.addEventListener('abort', wake)
        waiting.add(waiter)
        neededMs = performance.now()
        if (timer === undefined) void follow()
      })
    },

    /** The number of readers that wait for an event. */
    readers: () => waiting.size,
  }
}
