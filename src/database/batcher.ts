// Combines the calls of a few turns of the event loop into batches, so that many small reads or writes share
// one statement or one transaction.
import { ConflictError } from './driver-errors.ts'

/** A batch with this number of items does not wait for another turn. */
const GATHERED_ITEMS = 16
/** The time after which a batch does not wait for another turn. */
const GATHER_MS = 2

interface PendingCall<T, R> {
  readonly item: T
  /** Undefined if items have no keys. */
  readonly key: unknown
  readonly resolve: (result: R) => void
  readonly reject: (error: unknown) => void
}

export interface BatcherOptions<T> {
  /** Maximum number of batches in progress. At the limit, new items wait for the next batch. */
  readonly concurrency: number
  /** Maximum number of items in a batch. */
  readonly maxSize: number
  /**
   * Whether a further batch starts with any number of pending items. If false, it starts only when at least
   * as many items are pending as are in progress. Batches then grow with the load.
   */
  readonly eager: boolean
  /** Items with the same key are never in two batches in progress; those of one batch keep their order. */
  readonly keyOf?: (item: T) => unknown
}

/**
 * Creates a function that processes single items in batches. A batch always starts after its items were
 * added, so a read sees all earlier writes of the same client.
 * @param processBatch returns one result per item, in order; if it rejects, all items of the batch reject, except that
 * after a ConflictError the batch is processed again in two halves
 */
export function createBatcher<T, R>(
  processBatch: (items: readonly T[]) => Promise<readonly R[]>,
  { concurrency, maxSize, eager, keyOf }: BatcherOptions<T>,
): (item: T) => Promise<R> {
  let pending: PendingCall<T, R>[] = []
  let scheduled = false
  let batchesInProgress = 0
  let itemsInProgress = 0
  const keysInProgress = new Set<unknown>()

  function schedule(): void {
    if (scheduled || batchesInProgress === concurrency || pending.length === 0) return
    if (!eager && pending.length < itemsInProgress) return
    scheduled = true
    // Not a microtask: it would run before the callback of the next socket and see only one request.
    setImmediate(gather, 0, performance.now())
  }

  /**
   * Starts a batch, or waits for another turn of the event loop if this one has added items. Node.js accepts one
   * connection in each turn: requests on new connections arrive one by one.
   * @param before the number of items a turn ago
   */
  function gather(before: number, sinceMs: number): void {
    const { length } = pending
    const waits = length > before && length < GATHERED_ITEMS && performance.now() - sinceMs < GATHER_MS
    if (waits) setImmediate(gather, length, sinceMs)
    else void dispatch()
  }

  /** Removes the calls of the next batch from `pending`. */
  function takeBatch(): PendingCall<T, R>[] {
    const batch: PendingCall<T, R>[] = []
    const left: PendingCall<T, R>[] = []
    for (const call of pending) {
      const fits = batch.length < maxSize && !keysInProgress.has(call.key)
      ;(fits ? batch : left).push(call)
    }
    pending = left
    return batch
  }

  const itemsOf = (batch: readonly PendingCall<T, R>[]) => batch.map(({ item }) => item)

  function settle(batch: readonly PendingCall<T, R>[], values: readonly R[]): void {
    const results = values.values()
    for (const { resolve, reject } of batch) {
      const { done, value } = results.next()
      if (done === true) reject(new Error('the batch returned too few results'))
      else resolve(value)
    }
  }

  /** Processes a batch that has failed again in two halves, or rejects its items. */
  async function divide(batch: readonly PendingCall<T, R>[], error: unknown): Promise<void> {
    if (batch.length === 1 || !(error instanceof ConflictError)) {
      for (const { reject } of batch) reject(error)
      return
    }
    const middle = Math.ceil(batch.length / 2)
    for (const half of [batch.slice(0, middle), batch.slice(middle)])
      try {
        settle(half, await processBatch(itemsOf(half)))
      } catch (again) {
        await divide(half, again)
      }
  }

  async function dispatch(): Promise<void> {
    const batch = takeBatch()
    scheduled = false
    // The end of a batch in progress schedules the next one.
    if (batch.length === 0) return
    if (keyOf !== undefined) for (const { key } of batch) keysInProgress.add(key)
    batchesInProgress++
    itemsInProgress += batch.length
    schedule()
    try {
      settle(batch, await processBatch(itemsOf(batch)))
    } catch (error) {
      await divide(batch, error)
    } finally {
      for (const { key } of batch) keysInProgress.delete(key)
      batchesInProgress--
      itemsInProgress -= batch.length
      schedule()
    }
  }

  return item =>
    new Promise((resolve, reject) => {
      pending.push({ item, key: keyOf?.(item), resolve, reject })
      schedule()
    })
}
