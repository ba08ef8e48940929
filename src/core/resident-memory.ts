// The memory of this process, also while it has no free file descriptor.
let lastRssBytes = 0

/** Returns the resident memory in bytes. Without a free file descriptor, it cannot be read: then it is the last value. */
export function residentMemory(): number {
  try {
    lastRssBytes = process.memoryUsage.rss()
  } catch {
    // EMFILE or ENFILE
  }
  return lastRssBytes
}
