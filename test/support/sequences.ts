// Writers of events for tests of the change feed: each transaction counts one of a few records up under its lock, and
// appends an event with the new count. Of each record, the feed must have the counts in ascending order.
import type { ExecutionContext } from 'ava'
import type { Database } from '../../src/database/database.ts'
import { appendEvents } from '../../src/database/derived-rows.ts'
import type { FeedEvent } from '../../src/database/feed/events.ts'
import { readPortion } from '../../src/database/feed/portion.ts'
import { users } from '../../src/model/users.ts'

export const createSequencesSql = 'CREATE TABLE sequences (id BIGINT PRIMARY KEY, count BIGINT NOT NULL)'

/** Inserts the records 1 to `records`. */
export const insertSequences = (database: Database, records: number) =>
  database.knex('sequences').insert(Array.from({ length: records }, (_, at) => ({ id: at + 1, count: 0 })))

/** Counts these records up in one transaction, in this order, and appends their events. */
export const countUp = (database: Database, ids: readonly number[], by: string) =>
  database.transaction(async trx => {
    const counted: { id: number; count: number }[] = []
    for (const id of ids) {
      await trx.execute('UPDATE sequences SET count = count + 1 WHERE id = ?', [id])
      const [row] = await trx.query('SELECT count FROM sequences WHERE id = ?', [id])
      counted.push({ id, count: Number(row?.count) })
    }
    await appendEvents(
      trx,
      counted.map(({ id, count }) => ({
        type: 'updated',
        resource: users,
        id,
        before: count - 1,
        after: count,
        origin: { by, requestId: `${count}` },
      })),
    )
  })

/** Reads the whole feed. */
export async function readAll(database: Database): Promise<FeedEvent[]> {
  const all: FeedEvent[] = []
  for (let after: number | undefined; ; ) {
    const { events } = await readPortion(database, after, 100)
    const last = events.at(-1)
    if (last === undefined) return all
    all.push(...events)
    after = last.id
  }
}

/** The counts of each record in the order of the feed. */
export function countsOf(events: readonly FeedEvent[]): Map<number, number[]> {
  const counts = new Map<number, number[]>()
  for (const { ids, text } of events) {
    const id = ids.user_id ?? 0
    counts.set(id, [...(counts.get(id) ?? []), Number(JSON.parse(text).request_id)])
  }
  return counts
}

/** The numbers from 1 to `count`. */
export const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1)

/** Asserts that events have the counts of each record in ascending order, each of them once. */
export function expectInOrder(t: ExecutionContext, events: readonly FeedEvent[]): void {
  for (const counts of countsOf(events).values()) t.deepEqual(counts, upTo(counts.length))
}
