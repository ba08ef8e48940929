// Appends the events of a transaction to `change_queue`. They get their numbers after its COMMIT, see numbering.ts.
import type { SqlStatement } from '../transaction.ts'
import { type NewEvent, packEvents } from './events.ts'

const now = { toSqlString: () => 'UTC_TIMESTAMP(3)' }

/**
 * Returns the statement that appends the events of a transaction. Execute it while the transaction holds the locks of the changed
 * records: the rows of one record then have their ids in the order of the commits, because a server gives each row a greater id
 * than every row that it has seen.
 * @param events at least one
 */
export const appendEvents = (events: readonly NewEvent[]): SqlStatement => [
  'INSERT INTO change_queue (at, amount, events) VALUES ?',
  [packEvents(events).map(({ amount, events }) => [now, amount, events])],
]
