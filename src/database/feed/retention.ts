// Removes old events, and makes positions expire.
import type { Database } from '../database.ts'
import { readHead } from './portion.ts'

const PORTION_ROWS = 200
const LOOK_AHEAD_ROWS = 1000

/**
 * After `expirePositions`, ids continue at the time in seconds, multiplied by this number. More than 2^20 events a second are
 * not possible, so this id is greater than every id that the service has ever given out, also after a restored backup. It
 * stays within 2^53 until the year 2242.
 */
const IDS_PER_SECOND = 2 ** 20

const expiredSql = `SELECT last_id, at < UTC_TIMESTAMP(3) - INTERVAL ? SECOND AS expired FROM changes
  WHERE last_id > ? ORDER BY last_id LIMIT ${LOOK_AHEAD_ROWS}`
const raiseSql = 'UPDATE change_head SET floor = ? WHERE id = 1 AND floor < ?'
const removeSql = `DELETE FROM changes WHERE last_id <= (SELECT floor FROM change_head WHERE id = 1)
  ORDER BY last_id LIMIT ${PORTION_ROWS}`

/**
 * Makes all positions expire that were given out until now. Ids continue at a greater number.
 * @returns the first valid position
 */
export async function expirePositions(database: Database): Promise<number> {
  return database.transaction(async trx => {
    await trx.execute(
      `UPDATE change_head SET last_id = GREATEST(last_id + 1, UNIX_TIMESTAMP() * ${IDS_PER_SECOND}), floor = last_id
        WHERE id = 1`,
      [],
    )
    return (await readHead(trx)).floor
  })
}

/**
 * Whether each change has an event: `is_complete` in the database. A process without the feed notes the gap again and again. So it
 * has ended if the gap stays `closing` for longer than the time between two of its notes.
 */
const gap = { open: 0, closed: 1, closing: 2 } as const

const noteGapSql = `UPDATE change_head SET is_complete = ${gap.open} WHERE id = 1 AND is_complete <> ${gap.open}`
const closeGapSql = `UPDATE change_head SET last_id = last_id + 1, floor = last_id,
    is_complete = IF(is_complete = ${gap.open}, ${gap.closing}, ${gap.closed})
  WHERE id = 1 AND (is_complete = ${gap.open} OR is_complete = ${gap.closing} AND floor = ?)`
const closingSql = `SELECT floor FROM change_head WHERE id = 1 AND is_complete = ${gap.closing}`

/** Notes that changes are stored without an event, because a process runs without the feed. */
export const noteGap = (database: Database): Promise<unknown> =>
  database.transaction(trx => trx.execute(noteGapSql, []))

/**
 * Makes the positions expire that were given out before or while a process ran without the feed: no event tells what it has
 * changed. They expire once when the gap begins to close, and again when it is closed.
 * @param closing the result of the call before, which must be longer ago than the time between two notes of a gap
 * @returns the first valid position of a gap that is closing
 */
export async function closeGap(database: Database, closing: number | undefined): Promise<number | undefined> {
  return database.transaction(async trx => {
    await trx.execute(closeGapSql, [closing ?? null])
    const [head] = await trx.query(closingSql, [])
    return head && Number(head.floor)
  })
}

/** Makes the positions before events expire that are older than `keepSeconds`. */
async function raiseFloor(database: Database, keepSeconds: number): Promise<void> {
  const { floor } = await readHead(database)
  let raised = floor
  for (;;) {
    const rows = await database.query(expiredSql, [keepSeconds, raised])
    const kept = rows.findIndex(({ expired }) => Number(expired) === 0)
    const expired = kept === -1 ? rows : rows.slice(0, kept)
    raised = Number(expired.at(-1)?.last_id ?? raised)
    if (expired.length < LOOK_AHEAD_ROWS) break
  }
  if (raised > floor) await database.transaction(trx => trx.execute(raiseSql, [raised, raised]))
}

/** Removes the events that are older than `keepSeconds`. Several processes can do this at the same time. */
export async function removeExpired(database: Database, keepSeconds: number): Promise<void> {
  // The positions expire first, so that no reader finds a gap.
  await raiseFloor(database, keepSeconds)
  while ((await database.transaction(trx => trx.execute(removeSql, []))).affectedRows === PORTION_ROWS);
}
