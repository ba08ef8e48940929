// Transactions that wait for a lock of another session. They have few connections of their own, so that all
// other requests still find one, and only one of them waits for the same lock at a time.
import type { CodedError } from '../core/error-reason.ts'
import { retry } from '../core/retry.ts'
import { contentionError, isContention, isLocked } from './driver-errors.ts'
import { createKeyedQueues, createSemaphore } from './semaphore.ts'
import type { Transaction } from './transaction.ts'

/** Short: the next transaction of another server can end while this one pauses, and then this one fails again. */
const MAX_PAUSE_MS = 30

/** Milliseconds before the next attempt. The jitter keeps two transactions from colliding again. */
export const contentionPauseMs = (tries: number) => Math.random() * Math.min(MAX_PAUSE_MS, 5 * 2 ** tries)

/** Another session holds a lock. The message is logged, so it does not contain `key`, which can be a name. */
export class LockedError extends Error implements CodedError {
  readonly code = 'ER_LOCK_NOWAIT'
  /** Names the lock. Equal keys are the same lock. */
  readonly key: string

  constructor(key: string, cause?: unknown) {
    super('another session holds a lock', { cause })
    this.name = 'LockedError'
    this.key = key
  }
}

/** Converts the error of a statement that could not get a lock to a LockedError with `key`. */
export async function lockedAs<T>(key: string, statement: PromiseLike<T>): Promise<T> {
  try {
    return await statement
  } catch (error) {
    throw isLocked(error) ? new LockedError(key, error) : error
  }
}

export const rowKey = (table: string, id: number): string => `${table} ${id}`

/**
 * @param begin runs a transaction whose statements wait for locks
 * @param slots maximum number of transactions in progress, and so of their connections
 */
export function createLockQueue(
  begin: <T>(act: (trx: Transaction) => Promise<T>) => Promise<T>,
  { slots, timeoutMs }: { readonly slots: number; readonly timeoutMs: number },
) {
  const inSlot = createSemaphore(slots, timeoutMs)
  const queues = createKeyedQueues(timeoutMs)

  /**
   * Repeats a transaction until it gets its locks. A LockedError says which lock it waits for from then on.
   * @param firstKey the lock that the transaction has to wait for
   * @throws the contention error of the last attempt, after `timeoutMs`
   */
  async function run<T>(firstKey: string, act: (trx: Transaction) => Promise<T>): Promise<T> {
    const deadlineMs = performance.now() + timeoutMs
    let queue = queues.join(firstKey)
    async function attempt(): Promise<T> {
      if (performance.now() > deadlineMs) throw contentionError('timeout while waiting for a lock')
      return begin(act)
    }
    try {
      return await retry(() => queue.inTurn(() => inSlot(attempt)), {
        timeoutMs,
        pauseMs: contentionPauseMs,
        isTransient: isContention,
        beforePause(error) {
          if (!(error instanceof LockedError)) return
          queue.leave()
          queue = queues.join(error.key)
        },
      })
    } finally {
      queue.leave()
    }
  }

  return { run, keys: queues.keys }
}
