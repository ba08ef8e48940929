// Reads portions of the numbered changes, each together with the positions that are valid at that moment. No reader of this process
// holds up another one, or lacks an event that is committed but has no number yet.
import { setTimeout as delay } from 'node:timers/promises'
import { createSemaphore } from '../../core/semaphore.ts'
import type { Database } from '../database.ts'
import type { Statements } from '../transaction.ts'
import { type FeedEvent, MAX_ROW_EVENTS, unpackEvents } from './events.ts'

export interface Portion {
  /** The id of the newest event, or the last valid position if there is none. */
  readonly head: number
  /** The first valid position. */
  readonly floor: number
  /** In order, with consecutive ids. */
  readonly events: readonly FeedEvent[]
}

/** Reads at once by this process, beside two large ones: those of readers that are behind leave most connections to other requests. */
export const MAX_READS = 2
/** The most events that one statement reads. */
export const READ_EVENTS = 1000
const TURN_TIMEOUT_MS = 5000
/** Readers do not wait longer for a numbering. */
const NUMBERING_MS = 1000

// One statement, so that all of it is one consistent state. Its first table has one row, so the values of that row bound
// the range of the second one. Rows that end at most one row beyond the limit contain all events of the portion.
const portionSql = `SELECT head.floor, head.last_id AS head, EXISTS (SELECT 1 FROM change_queue) AS is_incomplete,
  changes.last_id, amount, events, CAST(at AS CHAR) AS at
  FROM change_head AS head LEFT JOIN changes ON changes.last_id > COALESCE(?, head.floor)
    AND changes.last_id < COALESCE(?, head.floor) + ? AND changes.last_id - amount < COALESCE(?, head.floor) + ?
  WHERE head.id = 1 ORDER BY changes.last_id`
const waitingSql = `SELECT COALESCE(SUM(amount), 0) AS events,
  COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(at), UTC_TIMESTAMP(3)), 0) / 1000000 AS seconds FROM change_queue`
const headSql = 'SELECT floor, last_id AS head FROM change_head WHERE id = 1'

/** A portion as read; `isIncomplete`: committed events wait for their numbers. */
type FoundPortion = Portion & { readonly isIncomplete: boolean }

/**
 * Reads up to `limit` events after the position `after`. Without `after`, it begins with the oldest event. If `after` is not
 * valid, there are no events.
 */
export async function readPortion(
  database: Database,
  after: number | undefined,
  limit: number,
): Promise<FoundPortion> {
  const position = after ?? null
  const rows = await database.query(portionSql, [position, position, limit + MAX_ROW_EVENTS, position, limit])
  const [head, floor] = [Number(rows[0]?.head), Number(rows[0]?.floor)]
  const isIncomplete = Number(rows[0]?.is_incomplete) === 1
  const start = after ?? floor
  if (start < floor) return { head, floor, isIncomplete, events: [] }
  const events = rows.flatMap(({ last_id, amount, events, at }) =>
    last_id === null
      ? []
      : unpackEvents({ amount: Number(amount), events: String(events) }, Number(last_id), String(at)),
  )
  return { head, floor, isIncomplete, events: events.filter(({ id }) => id > start).slice(0, limit) }
}

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
  const inFirstTurn = createSemaphore(1, TURN_TIMEOUT_MS)
  /** Readers near the end of the feed need only the first piece. They do not wait for those that are behind. */
  const inFurtherTurn = createSemaphore(1, TURN_TIMEOUT_MS)

  /** Reads many events piece by piece, so that the event loop serves other requests in between. */
  async function readPieces(after: number | undefined, limit: number) {
    let piece = await inFirstTurn(() => readPortion(database, after, READ_EVENTS))
    const events = [...piece.events]
    const goesOn = () => piece.events.length === READ_EVENTS && events.length < limit
    async function readOn() {
      while (goesOn()) {
        piece = await readPortion(database, events.at(-1)?.id, Math.min(READ_EVENTS, limit - events.length))
        events.push(...piece.events)
      }
    }
    if (goesOn()) await inFurtherTurn(readOn)
    return { ...piece, events }
  }

  const read = (after: number | undefined, limit: number) =>
    limit > READ_EVENTS ? readPieces(after, limit) : inTurn(() => readPortion(database, after, limit))

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

/** Reads the positions that are valid. */
export async function readHead(on: Statements): Promise<Omit<Portion, 'events'>> {
  const [row] = await on.query(headSql, [])
  return { head: Number(row?.head), floor: Number(row?.floor) }
}

/** Returns how many events wait for a number, and for how many seconds the oldest one does. */
export async function readWaiting(database: Database): Promise<{ waiting: number; waitingSeconds: number }> {
  const [row] = await database.query(waitingSql, [])
  return { waiting: Number(row?.events), waitingSeconds: Math.max(0, Number(row?.seconds)) }
}
