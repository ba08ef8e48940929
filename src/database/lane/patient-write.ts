// A write that waits for a lock of another session in its transaction, which stays open. The transaction can hold an
// Idempotency-Key, which no other request should get meanwhile.
import { setTimeout as delay } from 'node:timers/promises'
import { isLocked, lockedError } from '../driver-errors.ts'
import type { Transaction } from '../transaction.ts'
import type { Result } from './outcome.ts'
import { applyRecorded, type Entry, type WriterOptions } from './writer.ts'

const PAUSE_MS = 20

/** The number of transactions that can still begin to wait. */
export interface WaitingPlaces {
  free: number
}

/**
 * Writes an item of `writeIn`.
 * @param onWait called when it begins to wait
 * @throws an error that `isLocked`, if it cannot wait or has waited for too long
 */
export async function writePatiently<I>(
  writer: WriterOptions<I>,
  trx: Transaction,
  { item, deadlineMs }: Pick<Entry<I>, 'item' | 'deadlineMs'>,
  places: WaitingPlaces,
  onWait: () => void,
): Promise<Result> {
  const write = async () => (await applyRecorded(writer, trx, [item]))[0] ?? 'locked'
  const tryToWrite = () =>
    trx.part(write).catch((error: unknown) => {
      if (isLocked(error)) return 'locked' as const
      throw error
    })

  const first = await tryToWrite()
  if (first !== 'locked') return first
  if (places.free === 0) throw lockedError()
  places.free--
  onWait()
  try {
    while (performance.now() < deadlineMs) {
      await delay(PAUSE_MS)
      if ((await writer.held?.([item]))?.has(item)) continue
      const result = await tryToWrite()
      if (result !== 'locked') return result
    }
    throw lockedError()
  } finally {
    places.free++
  }
}
