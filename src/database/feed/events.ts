// The events of the change feed, and their form in the database. A row has the events of one transaction; consecutive
// events of one request and type share an entry, so that a batch of 1,000 records is a few kilobytes.
import * as z from 'zod'
import { idName } from '../../model/resource.ts'
import type { Change } from '../changes.ts'

/** The most events of one row. It bounds what a page reads beyond its end. */
export const MAX_ROW_EVENTS = 1000

/** An event with its place in the feed. */
export interface FeedEvent {
  readonly id: number
  /** `user.created`, `membership.deleted`. */
  readonly type: string
  /** The ids of the records, by the names of their members in an event: `{ user_id: 7, group_id: 3 }`. */
  readonly ids: Readonly<Record<string, number>>
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

const relationOf = (change: Change) => ('relation' in change ? change.relation : undefined)

const shareEntry = (one: Change, other: Change): boolean =>
  one.origin === other.origin &&
  one.type === other.type &&
  one.resource === other.resource &&
  relationOf(one) === relationOf(other)

/** Returns the entry that changes share. @param one any of them */
function entryOf(one: Change, changes: readonly Change[]): Entry {
  const { type, resource, origin } = one
  const common = { by: origin.by, request_id: origin.requestId }
  const ids = { [idName(resource)]: changes.map(({ id }) => id) }
  const relation = relationOf(one)
  if (relation === undefined) return { type: `${resource.singular}.${type}`, ids, ...common }
  ids[idName(relation.to)] = changes.flatMap(change => ('relation' in change ? change.otherId : []))
  return { type: `membership.${type === 'joined' ? 'created' : 'deleted'}`, ids, ...common }
}

function packRow(changes: readonly Change[]) {
  const entries: Entry[] = []
  let start = 0
  for (const [index, change] of changes.entries()) {
    const next = changes[index + 1]
    if (next !== undefined && shareEntry(change, next)) continue
    entries.push(entryOf(change, changes.slice(start, index + 1)))
    start = index + 1
  }
  return { amount: changes.length, events: JSON.stringify(entries) }
}

/**
 * Returns the changes that have events. The end of a record ends its memberships, which have no events then. If a transaction
 * ends memberships of a record that it leaves for a later one to delete, they have events: the record may stay.
 */
function withEvents(changes: readonly Change[]): readonly Change[] {
  const deleted = new Set<string>()
  for (const { type, resource, id } of changes)
    if (type === 'deleted') deleted.add(`${resource.plural} ${id}`)
  if (deleted.size === 0) return changes
  const endsWithRecord = (change: Change) =>
    change.type === 'ended' &&
    deleted.has(`${change.ending.plural} ${change.ending === change.resource ? change.id : change.otherId}`)
  return changes.filter(change => !endsWithRecord(change))
}

/** Returns the rows with the events of the changes of a transaction. */
export function eventRowsOf(changes: readonly Change[]) {
  const evented = withEvents(changes)
  const rows: ReturnType<typeof packRow>[] = []
  for (let start = 0; start < evented.length; start += MAX_ROW_EVENTS)
    rows.push(packRow(evented.slice(start, start + MAX_ROW_EVENTS)))
  return rows
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
  let id = lastId - amount
  return entries.flatMap(({ type, ids, ...common }) => {
    const names = Object.keys(ids)
    const rest = JSON.stringify({ at: `${at.replace(' ', 'T')}Z`, ...common }).slice(1)
    const [first = []] = Object.values(ids)
    return first.map((_, index): FeedEvent => {
      id++
      const own = Object.fromEntries(names.map(name => [name, ids[name]?.[index] ?? 0]))
      const members = names.map(name => `"${name}":${own[name]}`).join()
      return { id, type, ids: own, text: `{"id":${id},"type":"${type}",${members},${rest}` }
    })
  })
}
