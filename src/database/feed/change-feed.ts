// Runs the change feed in a worker: its readers, the numbering of its events, and the removal of old ones.
import { reasonOf } from '../../core/error-reason.ts'
import type { Log } from '../../core/log.ts'
import { repeat } from '../../core/repeat.ts'
import type { Database } from '../database.ts'
import { createFeed } from './feed.ts'
import { readWaiting } from './portion.ts'
import { closeGap, noteGap, removeExpired } from './retention.ts'

/** How often events are numbered that a killed process, or one in an outage, has left. */
const SWEEP_MS = 1000
/** How often a process without the feed notes that. */
const GAP_NOTE_MS = 10_000
/** How often a process with the feed looks for these notes: less often than they are made, see `closeGap`. */
const GAP_CHECK_MS = 30_000
const MAX_REMOVE_EVERY_MS = 30_000

/** @param keepSeconds how long events are kept; 0 turns the feed off */
export function createChangeFeed(database: Database, keepSeconds: number, log: Log) {
  const feed = keepSeconds > 0 ? createFeed(database) : undefined
  let waiting = { waiting: 0, waitingSeconds: 0 }
  const onError = (error: unknown) =>
    log.debug({ reason: reasonOf(error) }, 'the change feed is not maintained, retrying later')

  /** Numbers and removes events from now on. Without the feed, notes again and again that changes have no events. */
  async function start(): Promise<void> {
    if (feed === undefined) return repeat(GAP_NOTE_MS, () => noteGap(database), onError)
    let closing: number | undefined
    const checkGap = async () => {
      closing = await closeGap(database, closing)
    }
    await repeat(GAP_CHECK_MS, checkGap, onError)
    const remove = () => removeExpired(database, keepSeconds)
    void repeat(Math.min(MAX_REMOVE_EVERY_MS, keepSeconds * 500), remove, onError)
    const sweep = async () => {
      waiting = await readWaiting(database)
      if (waiting.waiting > 0) database.numbering.requestAfterWrite()
    }
    void repeat(SWEEP_MS, sweep, onError)
  }

  return {
    /** Undefined if the feed is off. */
    feed,
    start,
    /**
     * Returns how many events waited for a number at the last sweep, for how many seconds the oldest one did, and the
     * readers; undefined if the feed is off.
     */
    report: () => feed && { ...waiting, readers: feed.readers() },
  }
}
