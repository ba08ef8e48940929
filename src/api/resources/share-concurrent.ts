// Lets concurrent requests for the same thing share one read.

/**
 * Returns a function that calls `read` once for all calls of one event loop turn with the same key. The read begins after
 * the last of these calls, so that each client sees its own earlier writes.
 */
export function shareConcurrent<T>(): (key: string, read: () => Promise<T>) => Promise<T> {
  const pending = new Map<string, Promise<T>>()

  return (key, read) => {
    const shared = pending.get(key)
    if (shared !== undefined) return shared
    const result = new Promise<T>((resolve, reject) => {
      // Not a microtask: it would run before the callback of the next socket and see only one request.
      setImmediate(() => {
        pending.delete(key)
        read().then(resolve, reject)
      })
    })
    pending.set(key, result)
    return result
  }
}
