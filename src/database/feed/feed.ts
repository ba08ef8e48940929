// The change feed as the readers of this process see it. The newest events are in memory. While readers wait, one read
// serves all of them; none of them holds a database connection.
import { setTimeout as delay } from 'node:timers/promises'
import { MAX_ID } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import { createSemaphore } from '../semaphore.ts'
import type { FeedEvent } from './events.ts'
import { type Portion, readPortion } from './portion.ts'

/**
 * The pause after a read for waiting readers grows with the number of those that it has woken, because their answers follow: while
 * there is always something new, 1,000 readers get it five times a second.
 */
const PAUSE_MS_PER_READER = 0.2
const MIN_PAUSE_MS = 20
const MAX_PAUSE_MS = 200
/** Reads continue for so long after the last reader has waited, because it usually comes back. */
const LINGER_MS = 5000
/**
 * Readers do not wait longer for one read, whose connection can be dead: the next one uses another connection. Nor do they wait
 * longer for a numbering.
 */
const PATIENCE_MS = 1000
/** Events in memory are served to other requests as well if they have been read in this time. */
const FRESH_MS = 500
/** Reads at once by this process, beside a large one: those of readers that are behind leave most connections to other requests. */
const MAX_READS = 2
const TURN_TIMEOUT_MS = 5000
const MEMORY_EVENTS = 10_000
const READ_EVENTS = 1000

export type Feed = ReturnType<typeof createFeed>

export function createFeed(database: Database) {
  /** The events from `start` to `head`. */
  let memory = { start: 0, head: 0, floor: 0, events: [] as readonly FeedEvent[] }
  let readMs = -Infinity
  let neededMs = -Infinity
  /** Reads in progress for waiting readers. */
  let reading = 0
  let timer: NodeJS.Timeout | undefined
  const waiting = new Set<{ readonly after: number; readonly wake: () => void }>()

  const inTurn = createSemaphore(MAX_READS, TURN_TIMEOUT_MS)
  /** Large reads, which look for the events that a request selects, take their turns among themselves: they hold up no other. */
  const inLargeTurn = createSemaphore(1, TURN_TIMEOUT_MS)

  /** Reads many events piece by piece, so that the event loop serves other requests in between. */
  async function readPieces(after: number | undefined, limit: number) {
    let piece = await readPortion(database, after, READ_EVENTS)
    const events = [...piece.events]
    while (piece.events.length === READ_EVENTS && events.length < limit) {
      piece = await readPortion(database, events.at(-1)?.id, Math.min(READ_EVENTS, limit - events.length))
      events.push(...piece.events)
    }
    return { ...piece, events }
  }

  const read = (after: number | undefined, limit: number) =>
    limit > READ_EVENTS
      ? inLargeTurn(() => readPieces(after, limit))
      : inTurn(() => readPortion(database, after, limit))

  /** Reads a portion. At the end of the feed, events that wait for their numbers get them first, unless this takes long. */
  async function readComplete(after: number | undefined, limit: number): Promise<Portion> {
    const { isIncomplete, ...portion } = await read(after, limit)
    if (!isIncomplete || portion.events.length === limit) return portion
    await Promise.race([database.numbering.requestForReader(), delay(PATIENCE_MS, undefined, { ref: false })])
    const { head, floor, events } = await read(after, limit)
    return { head, floor, events }
  }

  const pauseMs = (woken: number) =>
    Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, PAUSE_MS_PER_READER * woken))
  const isFresh = () => performance.now() - readMs < FRESH_MS

  /** @returns the number of readers that it has woken */
  function remember({ head, floor, events }: Portion): number {
    const last = events.at(-1)
    // After a pause, or if positions have expired, memory begins anew at the end.
    const isBroken = memory.head < floor || memory.head > head || head - memory.head > MEMORY_EVENTS
    if (isBroken) memory = { start: head, head, floor, events: [] }
    else if (last === undefined) memory.floor = floor
    else {
      const all = [...memory.events, ...events].slice(-MEMORY_EVENTS)
      memory = { start: last.id - all.length, head: last.id, floor, events: all }
    }
    const readers = waiting.size
    for (const { after, wake } of waiting) if (isBroken || memory.head > after) wake()
    return readers - waiting.size
  }

  /** Reads what is new. @returns the number of readers that it has woken */
  async function readNew(): Promise<number> {
    let found: Portion
    let woken = 0
    do {
      const { head } = memory
      found = await readComplete(head, READ_EVENTS)
      // Another read was faster.
      if (memory.head !== head) return woken
      readMs = performance.now()
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
      const { start, head, floor, events } = memory
      if (after !== undefined && isFresh() && after >= Math.max(start, floor) && after <= head) {
        const found = events.slice(after - start, after - start + limit)
        if (!isFinal || found.length === limit) return { head, floor, events: found }
      }
      const portion = await readComplete(after, limit)
      return after === undefined || (after >= portion.floor && after <= portion.head) ? portion : undefined
    },

    /** Returns the newest position. @throws ApiError `unavailable` */
    latest: async (): Promise<number> => (await readComplete(MAX_ID, 1)).head,

    /** Resolves when there is an event after the position, when positions have expired, or when `signal` is aborted. */
    async changed(after: number, signal: AbortSignal): Promise<void> {
      if (signal.aborted || (isFresh() && memory.head > after)) return
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
