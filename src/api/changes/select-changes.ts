// Reads the events that a request selects.
import type { FeedEvent } from '../../database/feed/events.ts'
import type { Feed } from '../../database/feed/feed.ts'
import { changesExpired } from '../errors.ts'
import type { ChangesQuery } from './changes-query.ts'

/** Events that one read looks at for a request that selects some of them. */
const SCANNED_EVENTS = 10_000

/** Selected events, and the position up to which the feed has been looked at. */
export interface SelectedChanges {
  readonly events: readonly FeedEvent[]
  readonly start: number
  readonly end: number
  /** Whether the feed had no event after `end`. */
  readonly isAtEnd: boolean
}

/**
 * Reads up to `limit` selected events after a position. There can be none although later ones are selected.
 * @param isFinal whether the reader does not go on to wait for events
 * @throws ApiError `changes_expired`, `unavailable`
 */
export async function selectChanges(
  feed: Feed,
  { selects }: Pick<ChangesQuery, 'selects'>,
  after: number | undefined,
  limit: number,
  isFinal: boolean,
): Promise<SelectedChanges> {
  const scanned = selects === undefined ? limit : Math.max(SCANNED_EVENTS, limit)
  const portion = await feed.read(after, scanned, isFinal)
  if (portion === undefined) throw changesExpired(after ?? 0)
  const { floor, head, events: read } = portion
  const selected = selects === undefined ? read : read.filter(selects)
  const events = selected.slice(0, limit)
  const last = selected.length > limit ? events.at(-1) : read.at(-1)
  const start = after ?? floor
  const end = last?.id ?? start
  return { events, start, end, isAtEnd: end === head }
}
