// What a writer of records is, and the writes that wait for their results.
import type { Change, Origin } from '../changes.ts'
import type { Transaction } from '../transaction.ts'
import type { Keyed } from './key-queues.ts'
import type { Result } from './outcome.ts'

/** Maximum number of keys of the writes that share a transaction. A write with more of them has a transaction of its own. */
const MAX_KEYS = 200

/** What a write needs, whichever records it writes. */
export interface Item {
  readonly origin: Origin
}

export interface WriterOptions<I> {
  /** Returns the rows and the unique names that the write uses, as far as they are known before it begins. */
  keysOf(item: I): Iterable<string>
  /**
   * Writes items in a transaction, and says with `trx.record` what it has changed. It does not wait for locks of other sessions:
   * the result of an item is `locked`, or an error that `isLocked` tells that at least one of the items needs such a lock.
   * @returns one result for each item, in order
   */
  apply(trx: Transaction, items: readonly I[]): Promise<readonly (Result | 'locked')[]>
  /** Waits for a lock that an item needs, as long as the session waits for locks, before it is applied alone. */
  claim?(trx: Transaction, item: I): Promise<void>
  /** Returns the items that need a lock of another session, as far as they can be found. */
  held?(items: readonly I[]): Promise<ReadonlySet<I>>
}

export interface Writer<I> {
  /** @throws ApiError `unavailable` */
  write(item: I): Promise<Result>
  /**
   * Writes in a transaction that `around` shares with no other write.
   * @param around calls its second parameter to write the item. It is called again if the transaction is repeated.
   */
  writeIn<T>(item: I, around: (trx: Transaction, write: () => Promise<Result>) => Promise<T>): Promise<T>
}

/** A write in the queues of its keys. */
export interface Ticket extends Keyed {
  /** Called when it is the first one of a queue. */
  wake(): void
}

/** A write that waits for its result. */
export interface Entry<I> extends Ticket {
  readonly item: I
  /** The time, as `performance.now()`, after which it does not wait for a lock any longer. */
  readonly deadlineMs: number
  /**
   * Of `writeIn`: runs the write in a transaction of its own.
   * @param write writes the item
   * @returns a function that delivers the result
   */
  readonly runAlone: ((trx: Transaction, write: () => Promise<Result>) => Promise<() => void>) | undefined
  settle(result: Result): void
  reject(error: unknown): void
}

type Sharing = Pick<Entry<unknown>, 'keys' | 'runAlone'>

/** Whether an entry has a transaction of its own. */
export const isSingle = ({ keys, runAlone }: Sharing): boolean =>
  runAlone !== undefined || keys.length > MAX_KEYS

/** Whether an entry can share the transaction of a group. @param keys the number of keys of all of them */
export const fits = (group: readonly Sharing[], keys: number, { runAlone }: Sharing): boolean =>
  group.length === 0 || (keys <= MAX_KEYS && runAlone === undefined && group[0]?.runAlone === undefined)

/** Divides entries into groups that can share a transaction. */
export function groupsOf<E extends Sharing>(entries: readonly E[]): E[][] {
  const groups: E[][] = []
  let keys = 0
  for (const entry of entries) {
    const group = groups.at(-1)
    keys += entry.keys.length
    if (group !== undefined && fits(group, keys, entry)) group.push(entry)
    else {
      groups.push([entry])
      keys = entry.keys.length
    }
  }
  return groups
}

/** @throws Error if there are fewer changes than outcomes with a change */
function assertRecorded(results: readonly (Result | 'locked')[], changes: readonly Change[]): void {
  let changed = 0
  for (const result of results)
    if (typeof result === 'object')
      for (const outcome of result) if (typeof outcome === 'object' && outcome.changed) changed++
  if (changes.length < changed)
    throw new Error(`a writer has changed ${changed} records, but recorded ${changes.length} changes`)
}

/** Applies items. @throws Error if the writer does not return a result for each item, or has not recorded its changes */
export async function applyRecorded<I>(
  { apply }: Pick<WriterOptions<I>, 'apply'>,
  trx: Transaction,
  items: readonly I[],
): Promise<readonly (Result | 'locked')[]> {
  const results = await apply(trx, items)
  if (results.length !== items.length) throw new Error('a writer has not returned one result for each item')
  assertRecorded(results, trx.changes)
  return results
}
