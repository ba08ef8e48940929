// A model of the change feed: what its readers may have got, and what its events say about the stored records.
import assert from 'node:assert/strict'

export interface Event {
  readonly id: number
  readonly type: string
  readonly user_id?: number
  readonly group_id?: number
  readonly request_id: string
  /** The event as it was sent. */
  readonly text: string
}

/** The parameters that select events. */
export interface Filter {
  readonly types: readonly string[]
  readonly user_id?: number | undefined
  readonly group_id?: number | undefined
}

/** What a reader has got between two positions. */
export interface Part {
  readonly filter: Filter
  readonly after: number
  /** The last position that the reader knows. */
  readonly end: number
  readonly texts: readonly string[]
}

/** A request that writes, and the events that it must have, such as `membership.created 7 3`. */
export interface Write {
  readonly begunMs: number
  readonly endedMs: number
  readonly events: readonly string[]
  /**
   * `some`: those of memberships that exist already are missing. `members`: memberships of deleted groups can have events
   * of their own.
   */
  readonly rule: 'some' | 'members' | undefined
}

export const describe = ({ type, user_id, group_id }: Omit<Event, 'id' | 'request_id' | 'text'>): string =>
  [type, user_id, group_id].filter(part => part !== undefined).join(' ')

const selects = ({ types, user_id, group_id }: Filter, event: Event): boolean =>
  (types.length === 0 || types.includes(event.type)) &&
  (user_id === undefined || event.user_id === user_id) &&
  (group_id === undefined || event.group_id === group_id)

/** @throws AssertionError if a reader has not got exactly the selected events between its positions */
export function verifyParts(feed: readonly Event[], parts: readonly Part[]): void {
  const first = feed[0]?.id ?? 1
  for (const [at, { id }] of feed.entries()) assert.equal(id, first + at, 'ids are consecutive')
  for (const { filter, after, end, texts } of parts) {
    const between = feed.slice(Math.max(0, after + 1 - first), Math.max(0, end + 1 - first))
    const expected = between.filter(event => selects(filter, event)).map(({ text }) => text)
    assert.deepEqual(texts, expected, `after ${after} to ${end}: ${JSON.stringify(filter)}`)
  }
}

/** @throws AssertionError if an acknowledged change has not exactly one event, or another request has one */
export function verifyWrites(feed: readonly Event[], writes: ReadonlyMap<string, Write>): void {
  const found = new Map<string, string[]>()
  for (const event of feed) {
    const { request_id } = event
    found.set(request_id, [...(found.get(request_id) ?? []), describe(event)])
    assert.ok(writes.has(request_id), `no request ${request_id}: ${event.text}`)
  }
  for (const [request, { events, rule }] of writes) {
    const all = found.get(request) ?? []
    const got = rule === 'members' ? all.filter(text => !text.startsWith('membership.deleted')) : all
    const expected = rule === 'some' ? events.filter(text => got.includes(text)) : events
    assert.deepEqual(got, expected, request)
  }
  // An event follows every event that was acknowledged before its request began.
  let begunMs = -Infinity
  for (const event of feed) {
    const write = writes.get(event.request_id)
    assert.ok((write?.endedMs ?? 0) >= begunMs, `${event.text} was acknowledged before an earlier one began`)
    begunMs = Math.max(begunMs, write?.begunMs ?? 0)
  }
}

/**
 * Returns the records and memberships that exist after the events: `user 7`, `group 3`, `membership 7 3`.
 * @throws AssertionError if an event is not possible after those before it
 */
export function replay(feed: readonly Event[]): Set<string> {
  const exists = new Set<string>()
  for (const event of feed) {
    const [, kind, end] = /(\w+)\.(\w+)/.exec(event.type) ?? []
    const [user, group] = [`user ${event.user_id}`, `group ${event.group_id}`]
    const pair = `membership ${event.user_id} ${event.group_id}`
    const key = kind === 'user' ? user : kind === 'group' ? group : pair
    assert.equal(exists.has(key), end !== 'created', event.text)
    if (kind === 'membership') assert.ok(exists.has(user) && exists.has(group), event.text)
    if (end === 'created') exists.add(key)
    if (end === 'deleted') exists.delete(key)
    // The end of a record ends its memberships.
    if (end === 'deleted' && kind !== 'membership')
      for (const other of exists)
        if (
          kind === 'user'
            ? other.startsWith(`membership ${event.user_id} `)
            : other.endsWith(` ${event.group_id}`) && other.startsWith('membership')
        )
          exists.delete(other)
  }
  return exists
}
