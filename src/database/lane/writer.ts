// What a writer of records is, and the writes that wait for their results.
import type { Origin } from '../changes.ts'
import type { Receipt, SavedResponse, SavedRow } from '../idempotency-rows.ts'
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
   * @throws ApiError `unavailable`
   */
  apply(trx: Transaction, items: readonly I[]): Promise<readonly (Result | 'locked')[]>
  /** Waits for a lock that an item needs, as long as the session waits for locks, before it is applied alone. */
  awaitLock?(trx: Transaction, item: I): Promise<void>
  /** Returns the items that need a lock of another session, as far as they can be found. */
  held?(items: readonly I[]): Promise<ReadonlySet<I>>
}

export interface Writer<I> {
  /** @throws ApiError `unavailable` */
  write(item: I): Promise<Result>
  /**
   * Writes an item, and saves the response under its Idempotency-Key in the same transaction.
   * @returns the response, or the row of the key if it has one
   * @throws ApiError `unavailable`, `request_in_progress`, `limit_exceeded`, or the error of the receipt
   */
  writeOnce(item: I, receipt: Receipt): Promise<SavedResponse | SavedRow>
}

/** A write that is in the queues of its keys, or joins them later. */
export interface Ticket extends Keyed {
  /** Called when it is the first one of a queue. */
  wake(): void
}

/** What gets the result of a write; with an Idempotency-Key, its response, or the row of the key if it has one. */
export type Receiver = { reject(error: unknown): void } & (
  | { readonly receipt: undefined; settle(result: Result): void }
  | { readonly receipt: Receipt; settle(response: SavedResponse | SavedRow): void }
)

/** A write that waits for its result. */
export type Entry<I> = Ticket &
  Receiver & {
    readonly item: I
    /** The time, as `performance.now()`, after which it does not wait for a lock any longer. */
    readonly deadlineMs: number
  }

/** Whether an entry has a transaction of its own. */
export const isSingle = ({ keys }: Keyed): boolean => keys.length > MAX_KEYS

/** Whether another entry fits into the transaction of a group. @param keys the number of keys of all of them */
export const fits = (group: readonly Keyed[], keys: number): boolean => group.length === 0 || keys <= MAX_KEYS

/** Divides entries into groups that can share a transaction. */
export function groupsOf<E extends Keyed>(entries: readonly E[]): E[][] {
  const groups: E[][] = []
  let keys = 0
  for (const entry of entries) {
    const group = groups.at(-1)
    keys += entry.keys.length
    if (group !== undefined && fits(group, keys)) group.push(entry)
    else {
      groups.push([entry])
      keys = entry.keys.length
    }
  }
  return groups
}
