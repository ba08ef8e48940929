// The rows that follow from the changes of a transaction: counts, events and generations. They are stored before its COMMIT.
import type { Resource } from '../model/resource.ts'
import type { Change } from './changes.ts'
import { type CountChange, insertCountChanges, memberChange, recordChange } from './counting/counts.ts'
import { appendEvents } from './feed/events.ts'
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
  const events = recordsEvents ? withEvents(changes) : []
  await appendEvents(trx, events)
  // All writers share these rows, so they are locked last.
  for (const generation of [...outdated].sort()) await renewGeneration(trx, generation)
  return { countRows, hasEvents: events.length > 0 }
}
