// The writes of one writer that need a lock of another session. They are tried again, all together, until they get it, while one
// at a time waits for its lock. So any number of them needs two connections, and all writers share the one that waits.
import { setTimeout as delay } from 'node:timers/promises'
import type { Semaphore } from '../../core/semaphore.ts'
import { lockedError } from '../driver-errors.ts'
import { type Entry, groupsOf, type WriterOptions } from './writer.ts'

const MIN_PAUSE_MS = 10
/** The pause after a try, in multiples of its duration, so that the tries leave the database to other writes. */
const PAUSE_FACTOR = 4
/** The longest pause: one slow try, for example in a stall of the database, must not delay the next one for long. */
const MAX_PAUSE_MS = 500

interface LockedWritesOptions<I> {
  readonly writer: WriterOptions<I>
  /** Lets one write of the lane at a time wait for its lock. */
  readonly inWaitSlot: Semaphore
  /** Runs a group. It does not reject. */
  run(entries: readonly Entry<I>[]): Promise<void>
  /** Runs an entry in a transaction that waits for its lock. It does not reject. */
  awaitLock(entry: Entry<I>): Promise<void>
  fail(entries: readonly Entry<I>[], error: unknown): void
}

export function createLockedWrites<I>({ writer, inWaitSlot, run, awaitLock, fail }: LockedWritesOptions<I>) {
  let locked: Entry<I>[] = []
  let trying = false
  let isAwaiting = false
  /** The earliest time of the next try, as `performance.now()`. */
  let nextMs = 0
  /** Those that have waited for their lock. */
  const haveWaited = new WeakSet<Entry<I>>()

  /** Sets entries aside, with their keys, until they get their locks or their time is up. */
  function setAside(entries: readonly Entry<I>[]): void {
    locked.push(...entries)
    if (!trying) void tryAgain()
  }

  /** Sets aside the entries that need a lock of another session. @returns the others */
  async function setHeldAside(entries: readonly Entry<I>[]): Promise<readonly Entry<I>[]> {
    if (entries.length === 0) return entries
    // An error of the search is not reported: the write meets it as well.
    const held = await writer.held?.(entries.map(({ item }) => item)).catch(() => undefined)
    if (held === undefined || held.size === 0) return entries
    setAside(entries.filter(({ item }) => held.has(item)))
    return entries.filter(({ item }) => !held.has(item))
  }

  /**
   * Lets one entry wait for the lock of its row in the queue of the database. Other sessions can lock a row in turn, so that no
   * try ever finds it free. Only rows are waited for, not names.
   */
  async function awaitOne(): Promise<void> {
    const entry = locked.find(one => !haveWaited.has(one)) ?? locked[0]
    if (entry === undefined) return
    haveWaited.add(entry)
    locked = locked.filter(one => one !== entry)
    await awaitLock(entry)
  }

  /** Lets an entry wait for its lock once no write of another writer does. Without a turn in time, the next try asks again. */
  function requestWait(): void {
    if (writer.awaitLock === undefined || isAwaiting) return
    isAwaiting = true
    void inWaitSlot(awaitOne)
      .catch(() => {})
      .finally(() => {
        isAwaiting = false
      })
  }

  async function tryAgain(): Promise<void> {
    trying = true
    while (locked.length > 0) {
      await delay(Math.max(MIN_PAUSE_MS, nextMs - performance.now()))
      const beganMs = performance.now()
      const late = locked.filter(({ deadlineMs }) => deadlineMs < beganMs)
      const inTime = locked.filter(({ deadlineMs }) => deadlineMs >= beganMs)
      locked = []
      fail(late, lockedError())
      const free = await setHeldAside(inTime)
      for (const group of groupsOf(free)) await run(group)
      requestWait()
      const endedMs = performance.now()
      nextMs = endedMs + Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * (endedMs - beganMs))
    }
    trying = false
  }

  return { setAside, setHeldAside }
}
