// The lane that all writes of records pass through. Writes that use different rows and names share a transaction, and therefore
// one disk flush, but each has its own result. Writes of this process that use the same ones run in their order, in one
// transaction or one after the other. A transaction of several writes does not wait for a lock of another session: a write that
// needs such a lock is tried again until it gets it, and the others of its transaction go on, also later ones of the same rows.
import { createSemaphore } from '../../core/semaphore.ts'
import { createGather } from '../gather.ts'
import { createGroupRunner, type LaneTransactions } from './group-runner.ts'
import { createKeyQueues } from './key-queues.ts'
import {
  type Entry,
  fits,
  type Item,
  isSingle,
  type Receiver,
  type Ticket,
  type Writer,
  type WriterOptions,
} from './writer.ts'

/** New groups fill while others flush to disk. With a lower concurrency, the worker would wait for the disk. */
const CONCURRENCY = 3
const none: ReadonlySet<Ticket> = new Set()

interface LaneOptions extends Pick<LaneTransactions, 'attempt' | 'inSingleSlot'> {
  /** Maximum number of transactions that stay open while their write waits for a lock. */
  readonly maxWaiting: number
  /** Milliseconds after which a write does not wait for a lock any longer. */
  readonly timeoutMs: number
}

export function createLane({ attempt, inSingleSlot, maxWaiting, timeoutMs }: LaneOptions) {
  const queues = createKeyQueues<Ticket>()
  const transactions: LaneTransactions = {
    attempt,
    inSingleSlot,
    places: { free: maxWaiting },
    inWaitSlot: createSemaphore(1, timeoutMs),
  }

  function leave(ticket: Ticket): void {
    for (const next of queues.leave(ticket)) next.wake()
  }

  function createWriter<I extends Item>(writer: WriterOptions<I>): Writer<I> {
    /** The entries that are not in progress. */
    const pending = new Set<Ticket>()
    const isPending = (ticket: Ticket): ticket is Entry<I> => pending.has(ticket)
    /** Those of them that can be the first ones of all of their queues. */
    const candidates = new Set<Entry<I>>()
    let groupsInProgress = 0
    const gather = createGather(() => candidates.size, dispatch)
    const run = createGroupRunner(writer, transactions, leave)

    function schedule(): void {
      if (candidates.size > 0 && groupsInProgress < CONCURRENCY) gather()
    }

    /** Makes those that are behind `entry` and all others of `followed` candidates for the same group. */
    function addFollowers(entry: Entry<I>, followed: Set<Ticket>): void {
      followed.add(entry)
      for (const follower of queues.followers(entry, followed))
        if (isPending(follower)) candidates.add(follower)
    }

    /** Removes the entries of the next group from those that are pending. */
    function takeGroup(): Entry<I>[] {
      /** Those that others with the same keys can follow. */
      const followed = new Set<Ticket>()
      const entries: Entry<I>[] = []
      let keys = 0
      // Followers are added to the set meanwhile: writes with the same keys share a transaction, in their order. One with an
      // Idempotency-Key does not share it with those: it waits for a lock alone, and keeps its place.
      for (const entry of candidates) {
        if (!fits(entries, keys + entry.keys.length)) break
        candidates.delete(entry)
        if (!queues.isNext(entry, entry.receipt === undefined ? followed : none)) continue
        keys += entry.keys.length
        pending.delete(entry)
        entries.push(entry)
        if (isSingle(entry)) break
        if (entry.receipt === undefined) addFollowers(entry, followed)
      }
      return entries
    }

    function dispatch(): void {
      const entries = takeGroup()
      if (entries.length === 0) return
      // Writes with a transaction of their own cannot wait to share one.
      const counted = entries.some(isSingle) ? 0 : 1
      groupsInProgress += counted
      schedule()
      void run(entries).then(() => {
        groupsInProgress -= counted
        schedule()
      })
    }

    function add(item: I, receiver: Receiver): void {
      // V8 adds members to a copied object far more slowly than it copies members into a new one.
      const entry: Entry<I> = {
        item,
        keys: [...writer.keysOf(item)],
        deadlineMs: performance.now() + timeoutMs,
        wake() {
          if (!pending.has(entry)) return
          candidates.add(entry)
          schedule()
        },
        ...receiver,
      }
      queues.join(entry)
      pending.add(entry)
      entry.wake()
    }

    return {
      write: item =>
        new Promise((settle, reject) => {
          add(item, { receipt: undefined, settle, reject })
        }),

      writeOnce: (item, receipt) =>
        new Promise((settle, reject) => {
          add(item, { receipt, settle, reject })
        }),
    }
  }

  return { createWriter, keysInUse: queues.size }
}
