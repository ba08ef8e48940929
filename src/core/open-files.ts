// The limit of open files, and how many the settings need.
import { readFile } from 'node:fs/promises'
import type { Config } from '../config/config.ts'

/** Files, pipes and the connections to Redis of a worker, with a reserve. */
const OTHER_FILES = 100

/**
 * Returns how many files a worker may open, and how many it needs for these settings; undefined if the limit is high enough
 * or unknown. Linux shows the limit in /proc (proc_pid_limits(5)); Node.js has raised it as far as it may.
 */
export async function missingOpenFiles({ ports, limits, database }: Config) {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '')
  const limit = Number(/^Max open files +(\d+)/m.exec(text)?.[1] ?? Infinity)
  const needed = ports.length * limits.connections + database.poolMax + OTHER_FILES
  return limit < needed ? { limit, needed } : undefined
}
