// The lane that all writes of records pass through. Writes that use different rows and names share a transaction, and therefore
// one disk flush, but each has its own result. Writes of this process that use the same ones run in their order, in one
// transaction or one after the other. A large write has a transaction of its own. It takes its place in this order when it gets a
// slot for that. A transaction of several writes does not wait for a lock of another session: a write that
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
    /** The pending entries that can be the first ones of all of their queues. */
    const candidates = new Set<Entry<I>>()
    /** The entries with a transaction of their own that have joined their queues, and are behind others there. */
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

    function inSlot(entry: Entry<I>, act: () => Promise<void>, isUrgent: boolean): void {
      inSingleSlot(act, isUrgent).catch((error: unknown) => {
        entry.reject(error)
        leave(entry)
      })
    }

    /**
     * Adds a write that has a transaction of its own. It joins its queues in its first slot: until then, it would hold up all other
     * writes of its many keys. If it is behind others there, it gives the slot back, and gets the next one when it is the first.
     */
    function addSingle(entry: Entry<I>): void {
      const start = async () => {
        queues.join(entry)
        if (queues.isNext(entry, none)) await run([entry])
        else singlesBehind.add(entry)
      }
      inSlot(entry, start, false)
    }

    function wakeSingle(entry: Entry<I>): void {
      if (!queues.isNext(entry, none)) return
      singlesBehind.delete(entry)
      inSlot(entry, () => run([entry]), true)
    }

    function add(item: I, receiver: Receiver): void {
      // V8 adds members to a copied object far more slowly than it copies members into a new one.
      const entry: Entry<I> = {
        item,
        keys: [...writer.keysOf(item)],
        deadlineMs: performance.now() + timeoutMs,
        wake() {
          if (singlesBehind.has(entry)) wakeSingle(entry)
          else if (pending.has(entry)) {
            candidates.add(entry)
            schedule()
          }
        },
        ...receiver,
      }
      if (isSingle(entry)) addSingle(entry)
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
