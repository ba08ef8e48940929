// The newest events of the change feed in the memory of this process, for readers that are at its end.
import type { FeedEvent } from './events.ts'
import type { Portion } from './portion.ts'

/** Events in memory are served if they have been read in this time. */
const FRESH_MS = 500
const MAX_EVENTS = 10_000

export function createNewestEvents() {
  /** The events from `start` to `head`. */
  let memory = { start: 0, head: 0, floor: 0, events: [] as readonly FeedEvent[] }
  let readMs = -Infinity

  const isFresh = () => performance.now() - readMs < FRESH_MS

  return {
    /** The position up to which the feed has been read. */
    head: () => memory.head,

    /** Whether an event after a position is known, and was read a moment ago. */
    hasEventAfter: (position: number): boolean => isFresh() && memory.head > position,

    /** Returns up to `limit` events after a position; undefined if they are not in memory. */
    after(position: number, limit: number): Portion | undefined {
      const { start, head, floor, events } = memory
      if (!isFresh() || position < Math.max(start, floor) || position > head) return undefined
      return { head, floor, events: events.slice(position - start, position - start + limit) }
    },

    /**
     * Adds what has been read after `head`. After a pause, or if positions have expired, memory begins anew at the end of the feed.
     * @returns whether it begins anew
     */
    add({ head, floor, events }: Portion): boolean {
      readMs = performance.now()
      const last = events.at(-1)
      const isBroken = memory.head < floor || memory.head > head || head - memory.head > MAX_EVENTS
      if (isBroken) memory = { start: head, head, floor, events: [] }
      else if (last === undefined) memory.floor = floor
      else {
        const all = [...memory.events, ...events].slice(-MAX_EVENTS)
        memory = { start: last.id - all.length, head: last.id, floor, events: all }
      }
      return isBroken
    },
  }
}
