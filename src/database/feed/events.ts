// The events of the change feed, and their form in the database. A row has the events of one transaction; consecutive
// events of one request and type share an entry, so that a batch of 1,000 records is a few kilobytes.
import { raw } from 'mysql2'
import * as z from 'zod'
import type { Origin } from '../changes.ts'
import type { Transaction } from '../transaction.ts'

/** The most events of one row. It bounds what a page reads beyond its end. */
export const MAX_ROW_EVENTS = 1000

/** An event without its place in the feed. */
export interface NewEvent {
  /** `user.created`, `membership.deleted`. */
  readonly type: string
  /** The ids of the records, by the names of their members in an event: `{ user_id: 7, group_id: 3 }`. */
  readonly ids: Readonly<Record<string, number>>
  readonly origin: Origin
}

/** An event with its place in the feed. */
export interface FeedEvent extends Pick<NewEvent, 'type' | 'ids'> {
  readonly id: number
  /** The event as JSON, as readers get it. */
  readonly text: string
}

/** Consecutive events of a row. Each list of `ids` has one id per event. */
const entry = z.object({
  type: z.string(),
  ids: z.record(z.string(), z.array(z.number())),
  by: z.string().nullable(),
  request_id: z.string(),
})
const entriesOfRow = z.array(entry)
type Entry = z.output<typeof entry>

const belongsTo = ({ type, by, request_id }: Entry, event: NewEvent): boolean =>
  type === event.type && request_id === event.origin.requestId && by === event.origin.by

function packRow(events: readonly NewEvent[]) {
  const entries: Entry[] = []
  let last: Entry | undefined
  for (const event of events) {
    const { type, ids, origin } = event
    if (last === undefined || !belongsTo(last, event)) {
      last = { type, ids: {}, by: origin.by, request_id: origin.requestId }
      for (const name in ids) last.ids[name] = []
      entries.push(last)
    }
    for (const name in ids) last.ids[name]?.push(ids[name] ?? 0)
  }
  return { amount: events.length, events: JSON.stringify(entries) }
}

/**
 * Appends the events of a transaction to `change_queue`. They get their numbers after its COMMIT, see numbering.ts. Call it while the
 * transaction holds the locks of the changed records: the rows of one record then have their ids in the order of the commits,
 * because a server gives each row a greater id than every row that it has seen.
 */
export async function appendEvents(trx: Transaction, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return
  const now = raw('UTC_TIMESTAMP(3)')
  const rows: unknown[][] = []
  for (let start = 0; start < events.length; start += MAX_ROW_EVENTS) {
    const row = packRow(events.slice(start, start + MAX_ROW_EVENTS))
    rows.push([now, row.amount, row.events])
  }
  await trx.execute('INSERT INTO change_queue (at, amount, events) VALUES ?', [rows])
}

/**
 * Returns the events of a row.
 * @param lastId the id of the last one
 * @param events the packed events of the row, and their `amount`
 * @param at the time in UTC, as the database writes it: `2026-11-22 17:00:00.123`
 */
export function unpackEvents(
  { amount, events }: { readonly amount: number; readonly events: string },
  lastId: number,
  at: string,
): FeedEvent[] {
  const entries = entriesOfRow.parse(JSON.parse(events))
  const time = `"at":"${at.replace(' ', 'T')}Z"`
  let id = lastId - amount
  return entries.flatMap(({ type, ids, by, request_id }) => {
    const names = Object.keys(ids)
    const rest = `${time},"by":${JSON.stringify(by)},"request_id":${JSON.stringify(request_id)}}`
    const [first = []] = Object.values(ids)
    return first.map((_, index): FeedEvent => {
      id++
      const own = Object.fromEntries(names.map(name => [name, ids[name]?.[index] ?? 0]))
      const members = names.map(name => `"${name}":${own[name]}`).join()
      return { id, type, ids: own, text: `{"id":${id},"type":"${type}",${members},${rest}` }
    })
  })
}
