// Reads a portion of the numbered changes, together with the positions that are valid at that moment.
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
  if (start < floor || start > head) return { head, floor, isIncomplete, events: [] }
  const events = rows.flatMap(({ last_id, amount, events, at }) =>
    last_id === null
      ? []
      : unpackEvents({ amount: Number(amount), events: String(events) }, Number(last_id), String(at)),
  )
  const first = events.findIndex(({ id }) => id > start)
  return { head, floor, isIncomplete, events: first === -1 ? [] : events.slice(first, first + limit) }
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
