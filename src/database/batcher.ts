// Gathers the calls of one turn of the event loop into one, so that many small reads or writes cost what a larger one does.

interface Waiting<T, R> {
  readonly item: T
  readonly resolve: (result: R) => void
  readonly reject: (error: unknown) => void
}

export interface BatcherOptions {
  /** How many gathered calls may be under way; who finds no lane free gathers further. */
  readonly concurrency: number
  /** How many items one gathered call takes. */
  readonly maxSize: number
  /**
   * Whether another lane opens for however few wait. Otherwise for no fewer than are under way: so the calls grow with
   * the load, even where requests come in one by one, as they do on new connections.
   */
  readonly eager: boolean
}

/**
 * An item is never answered by a call that began before it, so everyone reads what they wrote.
 * @param act gives one result for each item, in their order; if it fails, all its items fail with it
 */
export function createBatcher<T, R>(
  act: (items: readonly T[]) => Promise<readonly R[]>,
  { concurrency, maxSize, eager }: BatcherOptions,
): (item: T) => Promise<R> {
  let waiting: Waiting<T, R>[] = []
  let scheduled = false
  let busy = 0
  let underWay = 0

  function schedule(): void {
    if (scheduled || busy === concurrency || waiting.length === 0) return
    if (!eager && waiting.length < underWay) return
    scheduled = true
    // Not a microtask: those run between the callbacks of two sockets, and would gather one request each.
    setImmediate(dispatch)
  }

  async function dispatch(): Promise<void> {
    const gathered = waiting.length > maxSize ? waiting.splice(0, maxSize) : waiting
    if (gathered === waiting) waiting = []
    scheduled = false
    busy++
    underWay += gathered.length
    schedule()
    try {
      const results = (await act(gathered.map(({ item }) => item))).values()
      for (const { resolve, reject } of gathered) {
        const { done, value } = results.next()
        if (done === true) reject(new Error('a gathered call gave too few results'))
        else resolve(value)
      }
    } catch (error) {
      for (const { reject } of gathered) reject(error)
    } finally {
      busy--
      underWay -= gathered.length
      schedule()
    }
  }

  return item =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      schedule()
    })
}
