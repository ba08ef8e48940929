// The rows that follow from the changes of a transaction: counts and generations. They are stored before its COMMIT.
import type { Resource } from '../model/resource.ts'
import type { Change } from './changes.ts'
import { deleteMemberCount, insertCountChanges, memberChange, recordChange } from './counting/counts.ts'
import type { Transaction } from './transaction.ts'
import { renewGeneration } from './version.ts'

function countChangeOf(change: Change) {
  switch (change.type) {
    case 'created':
      return recordChange(change.resource, change.id, 1)
    case 'updated':
      return undefined
    case 'deleted':
      return recordChange(change.resource, change.id, -1)
    default:
      return memberChange(change.relation.to, change.otherId, change.id, change.type === 'joined' ? 1 : -1)
  }
}

/** The resource whose records the change makes old in cached includes. */
function outdatedBy(change: Change): Resource | undefined {
  if (change.type === 'updated' || change.type === 'deleted') return change.resource
  // The members of a deleted record keep their version.
  return change.type === 'ended' && change.ending === change.relation.to ? change.ending : undefined
}

/**
 * Stores what follows from the changes of a transaction, in a fixed order, so that concurrent transactions do not deadlock.
 * @returns the number of rows that wait for a compaction of the counts
 */
export async function storeDerivedRows(trx: Transaction): Promise<number> {
  const { changes } = trx
  const rows = await insertCountChanges(
    trx,
    changes.flatMap(change => countChangeOf(change) ?? []),
  )
  for (const change of changes)
    if (change.type === 'deleted' && change.resource.generation !== undefined)
      await deleteMemberCount(trx, change.resource, change.id)
  // All writers share these rows, so they are locked last.
  const outdated = new Set(changes.flatMap(change => outdatedBy(change)?.generation ?? []))
  for (const generation of [...outdated].sort()) await renewGeneration(trx, generation)
  return rows
}
