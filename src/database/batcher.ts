// Combines the calls of a few turns of the event loop into batches, so that many small reads share one statement.
import { createGather } from './gather.ts'

interface PendingCall<T, R> {
  readonly item: T
  readonly resolve: (result: R) => void
  readonly reject: (error: unknown) => void
}

export interface BatcherOptions {
  /** Maximum number of batches in progress. At the limit, new items wait for the next batch. */
  readonly concurrency: number
  readonly maxSize: number
}

/**
 * Creates a function that processes single items in batches. A batch always starts after its items were added, so a read
 * sees all earlier writes of the same client. A further batch starts only when at least as many items are pending as are in
 * progress. Batches then grow with the load.
 * @param processBatch returns one result per item, in order; if it rejects, all items of the batch reject
 */
export function createBatcher<T, R>(
  processBatch: (items: readonly T[]) => Promise<readonly R[]>,
  { concurrency, maxSize }: BatcherOptions,
): (item: T) => Promise<R> {
  const pending: PendingCall<T, R>[] = []
  let batchesInProgress = 0
  let itemsInProgress = 0
  const gather = createGather(
    () => pending.length,
    () => void dispatch(),
  )

  function schedule(): void {
    if (batchesInProgress < concurrency && pending.length > 0 && pending.length >= itemsInProgress) gather()
  }

  function settle(batch: readonly PendingCall<T, R>[], values: readonly R[]): void {
    const results = values.values()
    for (const { resolve, reject } of batch) {
      const { done, value } = results.next()
      if (done === true) reject(new Error('the batch returned too few results'))
      else resolve(value)
    }
  }

  async function dispatch(): Promise<void> {
    const batch = pending.splice(0, maxSize)
    batchesInProgress++
    itemsInProgress += batch.length
    schedule()
    try {
      settle(batch, await processBatch(batch.map(({ item }) => item)))
    } catch (error) {
      for (const { reject } of batch) reject(error)
    } finally {
      batchesInProgress--
      itemsInProgress -= batch.length
      schedule()
    }
  }

  return item =>
    new Promise((resolve, reject) => {
      pending.push({ item, resolve, reject })
      schedule()
    })
}
