// Gathers the look-ups of one turn of the event loop into one, so that many small reads cost what one larger read does.

export interface Loader<K, V> {
  /** Looks all `keys` up; what is not found is undefined, in its place. */
  load(keys: readonly K[]): Promise<(V | undefined)[]>
}

interface Waiting<K, V> {
  readonly keys: readonly K[]
  readonly resolve: (values: (V | undefined)[]) => void
  readonly reject: (error: unknown) => void
}

/**
 * A look-up is never answered by a read that began before it, so everyone reads what they wrote.
 * @param loadMany reads distinct keys; if it fails, all that waited for them fail with it
 * @param lanes how many reads may be under way; look-ups that find none free gather further
 */
export function createLoader<K, V>(
  loadMany: (keys: readonly K[]) => Promise<ReadonlyMap<K, V>>,
  lanes: number,
): Loader<K, V> {
  let waiting: Waiting<K, V>[] = []
  let scheduled = false
  let busy = 0

  function schedule(): void {
    if (scheduled || busy === lanes || waiting.length === 0) return
    scheduled = true
    // Not a microtask: those run between the callbacks of two sockets, and would gather one request each.
    setImmediate(dispatch)
  }

  async function dispatch(): Promise<void> {
    const gathered = waiting
    waiting = []
    scheduled = false
    busy++
    try {
      const found = await loadMany([...new Set(gathered.flatMap(({ keys }) => keys))])
      for (const { keys, resolve } of gathered) resolve(keys.map(key => found.get(key)))
    } catch (error) {
      for (const { reject } of gathered) reject(error)
    } finally {
      busy--
      schedule()
    }
  }

  return {
    load: keys =>
      new Promise((resolve, reject) => {
        waiting.push({ keys, resolve, reject })
        schedule()
      }),
  }
}
