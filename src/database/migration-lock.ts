// The lock of the migrations. It is a row, which a database cluster replicates and certifies: a named lock (GET_LOCK) is known only
// to one server, so that migrations ran on several servers at once.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Knex } from 'knex'
import { isAddedTwice, isContention, retryContention } from './driver-errors.ts'
import { type Columns, rawRows } from './results.ts'

const TIMEOUT_MS = 120_000
const RENEW_MS = 1000
const POLL_MS = 500
/** A holder that has not renewed the lock during so many polls is gone. */
const MAX_SILENT_POLLS = 20

const table = 'migration_lock'
const FREE = ''

/**
 * Repeats an operation if a schema change or a write of another server interrupts it. The last statement of a run that was
 * interrupted goes on in the server: an operation that has waited for it fails, because the column or the index exists then.
 */
export const retryMigration = <T>(operation: () => PromiseLike<T>): Promise<T> =>
  retryContention(operation, TIMEOUT_MS, error => isContention(error) || isAddedTwice(error))

/** Creates the row. Several processes can do this at the same time. */
async function create(knex: Knex): Promise<void> {
  await retryMigration(() =>
    knex.raw(`CREATE TABLE IF NOT EXISTS ${table} (
      id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
      holder CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
      renewals BIGINT UNSIGNED NOT NULL
    ) ENGINE = InnoDB`),
  )
  await retryMigration(() =>
    knex(table).insert({ id: 1, holder: FREE, renewals: 0 }).onConflict('id').ignore(),
  )
}

/** Sets the holder if the row still has the values `from`. @returns whether it has been set */
async function replace(knex: Knex, from: Columns, holder: string): Promise<boolean> {
  const row = () => knex(table).where({ id: 1, ...from })
  return (await retryMigration(() => row().update({ holder, renewals: knex.raw('renewals + 1') }))) === 1
}

/** Waits until the lock is free, or its holder is gone. */
async function acquire(knex: Knex, holder: string, onWait: () => void): Promise<void> {
  await create(knex)
  const deadlineMs = performance.now() + TIMEOUT_MS
  let seen: string | undefined
  let silentPolls = 0
  while (performance.now() < deadlineMs) {
    const startedMs = performance.now()
    const [row] = await retryMigration(() =>
      rawRows(knex, `SELECT holder, renewals FROM ${table} WHERE id = 1`),
    )
    // A schema change can stop all writes of a database cluster, those of the holder too. Reads then take long.
    const isSlow = performance.now() - startedMs > POLL_MS
    const state = JSON.stringify(row)
    // Counted before the lock is taken from its holder: another process can have taken it since the last poll.
    silentPolls = state === seen && !isSlow ? silentPolls + 1 : 0
    if (row?.holder === FREE || silentPolls > MAX_SILENT_POLLS)
      if (await replace(knex, { ...row }, holder)) return
    if (seen === undefined) onWait()
    seen = state
    await delay(POLL_MS)
  }
  throw new Error(
    `another migration is still running after ${TIMEOUT_MS / 1000} s: try again when it has finished`,
  )
}

/**
 * Runs `act` while this process holds the lock. `act` calls `assertHeld` before each step, because a process that was
 * suspended for long can have lost the lock to another one.
 * @param onWait called if another process holds the lock
 * @throws Error if the lock is not free after two minutes
 */
export async function underMigrationLock<T>(
  knex: Knex,
  act: (assertHeld: () => Promise<void>) => Promise<T>,
  onWait: () => void = () => {},
): Promise<T> {
  const holder = randomUUID()
  const renew = () => replace(knex, { holder }, holder)
  await acquire(knex, holder, onWait)
  const timer = setInterval(() => renew().catch(() => {}), RENEW_MS)
  try {
    return await act(async () => {
      if (!(await renew())) throw new Error('another process has taken over the migrations: try again')
    })
  } finally {
    clearInterval(timer)
    await replace(knex, { holder }, FREE).catch(() => {})
  }
}
