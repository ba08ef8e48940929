// Appends the events of a transaction to `change_queue`. They get their numbers after its COMMIT, see numbering.ts.
import type { Transaction } from '../transaction.ts'
import { type NewEvent, packEvents } from './events.ts'

const appendSql = 'INSERT INTO change_queue (at, amount, events) VALUES ?'

/**
 * Appends the events of a transaction. Call it while the transaction holds the locks of the changed records: the rows of
 * one record then have their ids in the order of the commits, because a server gives each row a greater id than every row
 * that it has seen.
 */
export async function appendEvents(trx: Transaction, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return
  const now = { toSqlString: () => 'UTC_TIMESTAMP(3)' }
  await trx.execute(appendSql, [packEvents(events).map(({ amount, events }) => [now, amount, events])])
}
