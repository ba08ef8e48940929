// Runs the groups of one writer until each of their writes has its result: a group in one transaction, and after a conflict or a
// refusal its parts. A write that needs a lock of another session is tried again until it gets it (`locked-writes.ts`).
import { ApiError } from '../../core/api-error.ts'
import type { Semaphore } from '../../core/semaphore.ts'
import { isContention, isLocked } from '../driver-errors.ts'
import type { Transaction } from '../transaction.ts'
import { writeGroup } from './group-write.ts'
import { createLockedWrites } from './locked-writes.ts'
import { type WaitingPlaces, writePatiently } from './patient-write.ts'
import type { Entry, Ticket, WriterOptions } from './writer.ts'

/** The transactions of a lane. Its writers share their limits. */
export interface LaneTransactions {
  /**
   * Runs a transaction, and repeats it after a conflict.
   * @param size the number of writes in the transaction; the conflict of several ends the repetitions soon
   */
  attempt<T>(act: (trx: Transaction) => Promise<T>, size: number): Promise<T>
  readonly places: WaitingPlaces
  /** Lets one write of the lane at a time wait for its lock in the database. */
  readonly inWaitSlot: Semaphore
}

/**
 * Returns a function that runs a group. Its promise resolves when each write has its result, or waits. It does not reject.
 * @param leave called when a write has its result
 */
export function createGroupRunner<I>(
  writer: WriterOptions<I>,
  { attempt, places, inWaitSlot }: LaneTransactions,
  leave: (ticket: Ticket) => void,
): (entries: readonly Entry<I>[]) => Promise<void> {
  const awaitLock = (entry: Entry<I>): Promise<void> => runOne(entry, true)
  const { setAside, setHeldAside } = createLockedWrites({ writer, inWaitSlot, run, awaitLock, fail })

  function finish(entry: Entry<I>, deliver: () => void): void {
    deliver()
    leave(entry)
  }

  function fail(entries: readonly Entry<I>[], error: unknown): void {
    for (const entry of entries) finish(entry, () => entry.reject(error))
  }

  function failOrSetAside(entry: Entry<I>, error: unknown): void {
    if (isLocked(error)) setAside([entry])
    else fail([entry], error)
  }

  /**
   * Writes one entry, and waits for a lock in its transaction. Resolves when it has its result, or waits.
   * @param awaitsLock whether its first try waits for the lock
   */
  function writeAlone(entry: Entry<I>, awaitsLock: boolean): Promise<void> {
    return new Promise(resolve => {
      writePatiently({ writer, entry, awaitsLock, attempt: act => attempt(act, 1), places, onWait: resolve })
        .then(
          deliver => finish(entry, deliver),
          (error: unknown) => failOrSetAside(entry, error),
        )
        .finally(resolve)
    })
  }

  /** Writes entries in one transaction, and delivers their results. @param beforeWrite as of `writeGroup` */
  async function writeTogether(
    entries: readonly Entry<I>[],
    beforeWrite?: (trx: Transaction) => Promise<void>,
  ): Promise<void> {
    const deliveries = await attempt(trx => writeGroup(writer, trx, entries, beforeWrite), entries.length)
    for (const [index, entry] of entries.entries()) {
      const deliver = deliveries[index] ?? 'locked'
      if (deliver === 'locked') setAside([entry])
      else finish(entry, deliver)
    }
  }

  /** @param awaitsLock whether its transaction waits for the lock */
  async function runOne(entry: Entry<I>, awaitsLock: boolean): Promise<void> {
    if (entry.receipt !== undefined) return writeAlone(entry, awaitsLock)
    await writeTogether([entry], async trx => {
      if (awaitsLock) await writer.awaitLock?.(trx, entry.item)
    }).catch((error: unknown) => failOrSetAside(entry, error))
  }

  /**
   * Runs several entries, and after a conflict or a refusal some of them: those that need no lock of another session, or, if none
   * that does is found, one half and then the other.
   */
  async function runSeveral(entries: readonly Entry<I>[]): Promise<void> {
    try {
      await writeTogether(entries)
    } catch (error) {
      // The others can succeed without a request whose key or response is refused. With `unavailable`, they may be stored already.
      const isRefusal = error instanceof ApiError && error.code !== 'unavailable'
      if (!isContention(error) && !isRefusal) return fail(entries, error)
      const free = isLocked(error) ? await setHeldAside(entries) : entries
      if (free.length < entries.length) return run(free)
      const middle = Math.ceil(entries.length / 2)
      await run(entries.slice(0, middle))
      await run(entries.slice(middle))
    }
  }

  async function run(entries: readonly Entry<I>[]): Promise<void> {
    const [first, ...others] = entries
    if (first === undefined) return
    await (others.length === 0 ? runOne(first, false) : runSeveral(entries))
  }

  return run
}
