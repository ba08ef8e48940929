// The rows that follow from the changes of a transaction: counts, events and generations. They are stored before its COMMIT.
import { raw } from 'mysql2'
import type { Resource } from '../model/resource.ts'
import type { Change } from './changes.ts'
import { type CountChange, insertCountChanges, memberChange, recordChange } from './counting/counts.ts'
import { eventRowsOf } from './feed/events.ts'
import type { Transaction } from './transaction.ts'
import { renewGeneration } from './version.ts'

function countChangeOf(change: Change): CountChange | undefined {
  if ('relation' in change)
    return memberChange(change.relation.to, change.otherId, change.id, change.type === 'joined' ? 1 : -1)
  if (change.type === 'updated') return undefined
  return recordChange(change.resource, change.id, change.type === 'created' ? 1 : -1)
}

/** The resource whose records the change makes old in cached includes. */
function outdatedBy(change: Change): Resource | undefined {
  if (change.type === 'updated' || change.type === 'deleted') return change.resource
  // The members of a deleted record keep their version.
  return change.type === 'ended' && change.ending === change.relation.to ? change.ending : undefined
}

/**
 * Appends the events of changes to `change_queue`. Events get their numbers after its COMMIT, see feed/numbering.ts.
 * Call it while the transaction holds the locks of the changed records: the rows of one record then have their ids in the order of
 * the commits, because a server gives each row a greater id than every row that it has seen.
 * @returns whether there are any
 */
export async function appendEvents(trx: Transaction, changes: readonly Change[]): Promise<boolean> {
  const now = raw('UTC_TIMESTAMP(3)')
  const rows = eventRowsOf(changes).map(({ amount, events }) => [now, amount, events])
  if (rows.length > 0) await trx.execute('INSERT INTO change_queue (at, amount, events) VALUES ?', [rows])
  return rows.length > 0
}

/**
 * Stores what follows from the changes of a transaction, in a fixed order, so that concurrent transactions do not deadlock.
 * @param recordsEvents whether there is a change feed
 * @returns the number of rows that wait for a compaction of the counts, and whether events wait for a number
 */
export async function storeDerivedRows(trx: Transaction, recordsEvents: boolean) {
  const { changes } = trx
  const countChanges: CountChange[] = []
  const outdated = new Set<string>()
  for (const change of changes) {
    const countChange = countChangeOf(change)
    if (countChange !== undefined) countChanges.push(countChange)
    const generation = outdatedBy(change)?.generation
    if (generation !== undefined) outdated.add(generation)
  }
  const countRows = await insertCountChanges(trx, countChanges)
  const hasEvents = recordsEvents && (await appendEvents(trx, changes))
  // All writers share these rows, so they are locked last.
  for (const generation of [...outdated].sort()) await renewGeneration(trx, generation)
  return { countRows, hasEvents }
}
