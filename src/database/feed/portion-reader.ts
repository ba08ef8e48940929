// Reads portions of the change feed for the readers of this process. None of them holds up another one, or lacks an event that is
// committed but has no number yet.
import { setTimeout as delay } from 'node:timers/promises'
import { createSemaphore } from '../../core/semaphore.ts'
import type { Database } from '../database.ts'
import { type Portion, readPortion } from './portion.ts'

/** Reads at once by this process, beside a large one: those of readers that are behind leave most connections to other requests. */
export const MAX_READS = 2
/** The most events that one statement reads. */
export const READ_EVENTS = 1000
const TURN_TIMEOUT_MS = 5000
/** Readers do not wait longer for a numbering. */
const NUMBERING_MS = 1000

/**
 * Returns a function that reads up to `limit` events after a position. Without a position, it begins with the oldest event. At
 * the end of the feed, events that wait for their numbers get them first, unless this takes long. It throws ApiError
 * `unavailable`.
 */
export function createPortionReader(
  database: Database,
): (after: number | undefined, limit: number) => Promise<Portion> {
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

  return async (after, limit) => {
    const { isIncomplete, ...portion } = await read(after, limit)
    if (!isIncomplete || portion.events.length === limit) return portion
    await Promise.race([
      database.numbering.requestForReader(),
      delay(NUMBERING_MS, undefined, { ref: false }),
    ])
    const { head, floor, events } = await read(after, limit)
    return { head, floor, events }
  }
}
