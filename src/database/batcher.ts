// Combines the calls of a few turns of the event loop into batches, so that many small reads share one statement.
import { createGather } from './gather.ts'

interface PendingRead<K, V> {
  readonly key: K
  readonly resolve: (value: V | undefined) => void
  readonly reject: (error: unknown) => void
}

interface BatcherOptions {
  /** Maximum number of batches in progress. At the limit, new reads wait for the next batch. */
  readonly concurrency: number
  readonly maxSize: number
}

/**
 * Creates a function that reads the values of single keys in batches. A batch always starts after its reads were added, so a
 * read sees all earlier writes of the same client. A further batch starts only when at least as many reads are pending as are in
 * progress. Batches then grow with the load.
 * @param readMany gets each key once; if it rejects, all reads of the batch reject
 */
export function createBatcher<K, V>(
  readMany: (keys: readonly K[]) => Promise<ReadonlyMap<K, V>>,
  { concurrency, maxSize }: BatcherOptions,
): (key: K) => Promise<V | undefined> {
  const pending: PendingRead<K, V>[] = []
  let batchesInProgress = 0
  let readsInProgress = 0
  const gather = createGather(
    () => pending.length,
    () => void dispatch(),
  )

  function schedule(): void {
    if (batchesInProgress < concurrency && pending.length > 0 && pending.length >= readsInProgress) gather()
  }

  async function dispatch(): Promise<void> {
    const batch = pending.splice(0, maxSize)
    batchesInProgress++
    readsInProgress += batch.length
    schedule()
    try {
      const values = await readMany([...new Set(batch.map(({ key }) => key))])
      for (const { key, resolve } of batch) resolve(values.get(key))
    } catch (error) {
      for (const { reject } of batch) reject(error)
    } finally {
      batchesInProgress--
      readsInProgress -= batch.length
      schedule()
    }
  }

  return key =>
    new Promise((resolve, reject) => {
      pending.push({ key, resolve, reject })
      schedule()
    })
}
