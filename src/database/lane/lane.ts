// The lane that all writes of records pass through. Writes that use different rows and names share a transaction, and therefore
// one disk flush, but each has its own result. Writes of this process that use the same ones run in their order, in one
// transaction or one after the other. A large write has a transaction of its own, and its place in this order from the time when
// there is a connection for it. A transaction of several writes does not wait for a lock of another session: a write that
// needs such a lock is tried again until it gets it, and the others of its transaction go on, also later ones of the same rows.
import { createSemaphore, type Semaphore } from '../../core/semaphore.ts'
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

interface LaneOptions extends Pick<LaneTransactions, 'attempt'> {
  /** Runs a write that has a transaction of its own from the start. It limits them, so that connections are left for other writes. */
  readonly inSingleSlot: Semaphore
  /** Maximum number of transactions that stay open while their write waits for a lock. */
  readonly maxWaiting: number
  /** Milliseconds after which a write does not wait for a lock any longer. */
  readonly timeoutMs: number
}

export function createLane({ attempt, inSingleSlot, maxWaiting, timeoutMs }: LaneOptions) {
  const queues = createKeyQueues<Ticket>()
  const transactions: LaneTransactions = {
    attempt,
    places: { free: maxWaiting },
    inWaitSlot: createSemaphore(1, timeoutMs),
  }

  function leave(ticket: Ticket): void {
    for (const next of queues.leave(ticket)) next.wake()
  }

  function createWriter<I extends Item>(writer: WriterOptions<I>): Writer<I> {
    /** The entries that can share a transaction and are not in progress. */
    const pending = new Set<Ticket>()
    const isPending = (ticket: Ticket): ticket is Entry<I> => pending.has(ticket)
    /** Those of them that can be the first ones of all of their queues. */
    const candidates = new Set<Entry<I>>()
    /** Those with a transaction of their own that are behind others in their queues. */
    const singlesBehind = new Set<Ticket>()
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
        if (entry.receipt === undefined) addFollowers(entry, followed)
      }
      return entries
    }

    function dispatch(): void {
      const entries = takeGroup()
      if (entries.length === 0) return
      groupsInProgress++
      schedule()
      void run(entries).then(() => {
        groupsInProgress--
        schedule()
      })
    }

    /**
     * Runs a write that has a transaction of its own, in a slot, as soon as it is the first one of all of its queues. It joins them in
     * the slot: a write that only waits for one would hold up all others of its many keys.
     * @param isUrgent whether it goes before the writes that wait for a slot, because it is in its queues already
     */
    function runSingle(entry: Entry<I>, isUrgent = false): void {
      const start = async () => {
        queues.join(entry)
        if (queues.isNext(entry, none)) await run([entry])
        else singlesBehind.add(entry)
      }
      inSingleSlot(start, isUrgent).catch((error: unknown) => {
        entry.reject(error)
        leave(entry)
      })
    }

    function add(item: I, receiver: Receiver): void {
      // V8 adds members to a copied object far more slowly than it copies members into a new one.
      const entry: Entry<I> = {
        item,
        keys: [...writer.keysOf(item)],
        deadlineMs: performance.now() + timeoutMs,
        wake() {
          if (singlesBehind.delete(entry)) runSingle(entry, true)
          else if (pending.has(entry)) {
            candidates.add(entry)
            schedule()
          }
        },
        ...receiver,
      }
      if (isSingle(entry)) runSingle(entry)
      else {
        queues.join(entry)
        pending.add(entry)
        entry.wake()
      }
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
