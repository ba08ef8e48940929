// A write with an Idempotency-Key, in a transaction of its own. While the write waits for a lock of another session, its
// transaction is open, so that no other request gets the key, but it holds no locks of records: the other session could need one
// of them. Between two tries, the key is free for a moment: a repetition of the request that gets it then takes its place.
import { setTimeout as delay } from 'node:timers/promises'
import { isLocked, lockedError } from '../driver-errors.ts'
import type { Transaction } from '../transaction.ts'
import { writeGroup } from './group-write.ts'
import type { Entry, WriterOptions } from './writer.ts'

const PAUSE_MS = 20

/** The number of transactions that can still begin to wait. */
export interface WaitingPlaces {
  free: number
}

interface PatientWriteOptions<I> {
  readonly writer: WriterOptions<I>
  readonly entry: Entry<I>
  /** Whether the first try waits for the lock in the queue of the database. */
  readonly awaitsLock: boolean
  /** Runs a transaction. */
  attempt<T>(act: (trx: Transaction) => Promise<T>): Promise<T>
  readonly places: WaitingPlaces
  /** Called when the write begins to wait. */
  onWait(): void
}

/**
 * Writes an entry. A try that meets a lock is rolled back as a whole, with the locks that it has got.
 * @returns a function that delivers the result
 * @throws an error that `isLocked`, if it cannot wait or has waited for too long
 */
export async function writePatiently<I>(options: PatientWriteOptions<I>): Promise<() => void> {
  const { writer, entry, awaitsLock, attempt, places, onWait } = options
  const { item, deadlineMs } = entry
  const mustEnd = (error: unknown) => !isLocked(error) || performance.now() >= deadlineMs

  /** Waits before the write has any locks. The pauses differ, so that two writes do not always meet again. */
  async function untilFree(): Promise<void> {
    do await delay(PAUSE_MS * (0.5 + Math.random()))
    while (performance.now() < deadlineMs && (await writer.held?.([item]))?.has(item))
  }

  function tryToWrite(beforeWrite: (trx: Transaction) => Promise<void>): Promise<() => void> {
    return attempt(async trx => {
      const [delivery = 'locked'] = await writeGroup(writer, trx, [entry], beforeWrite)
      if (delivery === 'locked') throw lockedError()
      return delivery
    })
  }

  try {
    return await tryToWrite(async trx => {
      if (awaitsLock) await writer.awaitLock?.(trx, item)
    })
  } catch (error) {
    if (mustEnd(error) || places.free === 0) throw error
  }
  places.free--
  onWait()
  try {
    for (;;) {
      try {
        return await tryToWrite(untilFree)
      } catch (error) {
        if (mustEnd(error)) throw error
      }
    }
  } finally {
    places.free++
  }
}
