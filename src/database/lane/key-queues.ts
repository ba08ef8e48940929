// The keys that the writes of this process use: each key has a queue, and a write can begin when it is the first one in all of
// its queues. Writes that share several keys stand in the same order in each queue, so they never wait for each other in a
// circle, and none is passed over.

export interface Keyed {
  /** A key can be repeated. */
  readonly keys: readonly string[]
}

export function createKeyQueues<E extends Keyed>() {
  /** Nearly every queue has one entry: it stands for itself, without a set. */
  const queues = new Map<string, E | Set<E>>()

  /** Returns the first entry of a queue that is not in `batch`. */
  function firstOutside(key: string, batch: ReadonlySet<E>): E | undefined {
    const queue = queues.get(key)
    if (!(queue instanceof Set)) return queue === undefined || batch.has(queue) ? undefined : queue
    for (const entry of queue) if (!batch.has(entry)) return entry
    return undefined
  }

  return {
    join(entry: E): void {
      for (const key of entry.keys) {
        const queue = queues.get(key)
        if (queue === undefined) queues.set(key, entry)
        else if (queue instanceof Set) queue.add(entry)
        else queues.set(key, new Set([queue, entry]))
      }
    },
    /** Whether all entries before this one are in `batch`. */
    isNext: (entry: E, batch: ReadonlySet<E>): boolean =>
      entry.keys.every(key => firstOutside(key, batch) === entry),
    /** Returns, for each key of the entry, the first entry that is not in `batch`. */
    followers: (entry: E, batch: ReadonlySet<E>): E[] =>
      entry.keys.flatMap(key => firstOutside(key, batch) ?? []),
    /** Removes an entry, and returns the entries that are first now. */
    leave(entry: E): ReadonlySet<E> {
      const firsts = new Set<E>()
      for (const key of entry.keys) {
        const queue = queues.get(key)
        if (!(queue instanceof Set)) {
          if (queue === entry) queues.delete(key)
          continue
        }
        queue.delete(entry)
        const [first] = queue
        if (first === undefined) queues.delete(key)
        else firsts.add(first)
      }
      return firsts
    },
    size: () => queues.size,
  }
}
