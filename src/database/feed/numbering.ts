// Numbers the events: one transaction at a time moves the committed rows of `change_queue` to `changes`. See
// decisions/change-feed.md.
import { ApiError } from '../../core/api-error.ts'
import { reasonOf } from '../../core/error-reason.ts'
import type { Log } from '../../core/log.ts'
import { assertRowCount, isDenied } from '../driver-errors.ts'
import { deleteByIds } from '../listed-rows.ts'
import type { RunTransaction, Transaction } from '../transaction.ts'

const MAX_ROWS = 500
/**
 * The least time between two numberings by this process, which bounds what they cost. A reader that finds events without a number
 * gets the shorter one. Where they take long, because the machine or the database is busy, they are rarer.
 */
const WRITER_PAUSE_MS = 250
const READER_PAUSE_MS = 25
const MAX_PAUSE_MS = 500
const PAUSE_FACTOR = 3

const moveSql = `INSERT INTO changes (last_id, at, amount, events)
  SELECT ? + SUM(amount) OVER (ORDER BY id), at, amount, events FROM change_queue WHERE id IN (?) ORDER BY id`

/** @returns the number of rows that have their numbers now */
async function numberRows(trx: Transaction): Promise<number> {
  // All numberings lock this row first. On a database cluster, two that do so on different servers conflict at their COMMIT.
  const [head] = await trx.query('SELECT last_id FROM change_head WHERE id = 1 FOR UPDATE', [])
  // This read takes a new snapshot without locks, in which every row of an earlier commit is visible. A locking read
  // would wait for, or skip, rows of transactions that have not ended.
  const rows = await trx.query(`SELECT id, amount FROM change_queue ORDER BY id LIMIT ${MAX_ROWS}`, [])
  if (head === undefined || rows.length === 0) return 0
  const ids = rows.map(({ id }) => Number(id))
  const amount = rows.reduce((sum, row) => sum + Number(row.amount), 0)
  const moved = await trx.execute(moveSql, [head.last_id, ids])
  assertRowCount('changes', moved, ids.length)
  await deleteByIds(trx, 'change_queue', ids)
  const counted = await trx.execute('UPDATE change_head SET last_id = last_id + ? WHERE id = 1', [amount])
  assertRowCount('change_head', counted, 1)
  return rows.length
}

export function createNumbering(transaction: RunTransaction, log: Log) {
  let isRunning = false
  let last = { endedMs: -Infinity, durationMs: 0 }
  /** The requested pause after the last numbering; Infinity: none is requested. */
  let pauseMs = Infinity
  let timer: NodeJS.Timeout | undefined
  /** Called after the next numbering. */
  const waiting: (() => void)[] = []
  /** The reason that was logged last, since the last success. */
  let logged: string | undefined

  /** The sweep repeats a failed numbering. */
  function onFailed(error: unknown): void {
    // `database` logs outages. Their errors, and those of a closed pool, are ApiErrors, as is a missing privilege.
    if (error instanceof ApiError && !isDenied(error.cause)) return
    const reason = reasonOf(error)
    if (reason === logged) return
    logged = reason
    log.error({ reason }, 'new changes do not reach the feed, retrying')
  }

  async function number(): Promise<void> {
    while ((await transaction(numberRows)) === MAX_ROWS);
  }

  async function run(): Promise<void> {
    isRunning = true
    pauseMs = Infinity
    const served = waiting.splice(0)
    const startedMs = performance.now()
    try {
      await number()
      logged = undefined
    } catch (error) {
      onFailed(error)
    }
    const endedMs = performance.now()
    last = { endedMs, durationMs: endedMs - startedMs }
    isRunning = false
    for (const resolve of served) resolve()
    schedule()
  }

  function schedule(): void {
    clearTimeout(timer)
    if (isRunning || pauseMs === Infinity) return
    const leastMs = Math.max(pauseMs, Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * last.durationMs))
    timer = setTimeout(run, Math.max(0, last.endedMs + leastMs - performance.now())).unref()
  }

  /** Numbers the events that are committed now, `afterMs` after the last numbering at the earliest. */
  function request(afterMs: number): void {
    if (afterMs >= pauseMs) return
    pauseMs = afterMs
    schedule()
  }

  return {
    number,
    requestAfterWrite: () => request(WRITER_PAUSE_MS),

    /** Resolves when the events that are committed now have their numbers, or cannot get them. */
    requestForReader(): Promise<void> {
      request(READER_PAUSE_MS)
      return new Promise(resolve => waiting.push(resolve))
    },
  }
}
