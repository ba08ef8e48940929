// Finds out on another connection whether a transaction was stored, if the answer to its COMMIT is lost.
// See decisions/lost-commit.md.
import type { Knex } from 'knex'
import { unavailable } from '../core/api-error.ts'
import { hasCode } from '../core/error-reason.ts'
import { retry } from '../core/retry.ts'
import type { Change, Versions } from './changes.ts'
import { isContention, isUnreachable } from './driver-errors.ts'
import { eventRowsOf } from './feed/events.ts'
import { rawRows, rowsOf } from './results.ts'

const LOOKUP_TIMEOUT_MS = 3000
const LOOKUP_PAUSE_MS = 100

/** A row that shows whether a transaction was stored. Versions are random, so no other transaction sets the same one. */
interface Proof extends Versions {
  readonly table: string
  readonly id: number
}

/** Returns the rows whose versions the changes have changed, each once. */
function proofsOf(changes: readonly Change[]): Proof[] {
  const proofs = new Map<string, Proof>()
  for (const change of changes) {
    if (change.type === 'ended') continue
    const { id, after } = change
    const table = change.resource.plural
    const { before } = proofs.get(`${table} ${id}`) ?? change
    proofs.set(`${table} ${id}`, { table, id, before, after })
  }
  return [...proofs.values()]
}

/** The newest rows of the feed, in which the events of a transaction are looked for. Usually, the look-up follows its COMMIT within seconds. */
const NEWEST_ROWS = 1000
const eventsSql = `SELECT 1 FROM change_queue WHERE events = ? UNION ALL
  SELECT 1 FROM (SELECT events FROM changes ORDER BY last_id DESC LIMIT ${NEWEST_ROWS}) AS newest WHERE events = ?`

/**
 * Returns whether the feed has the events of a transaction that creates or deletes records. Their text has the ids of the records and
 * of the requests, and a record is created and deleted once.
 */
async function hasEvents(knex: Knex, changes: readonly Change[]): Promise<boolean> {
  if (!changes.some(({ type }) => type === 'created' || type === 'deleted')) return false
  const [row] = eventRowsOf(changes)
  return row !== undefined && (await rawRows(knex, eventsSql, [row.events, row.events])).length > 0
}

/** Returns undefined if the outcome is unknown: other transactions have changed or deleted the rows since, and no event is found. */
async function wasStored(
  knex: Knex,
  proofs: readonly Proof[],
  changes: readonly Change[],
): Promise<boolean | undefined> {
  const lookUp = <T>(read: () => Promise<T>) =>
    retry(read, {
      timeoutMs: LOOKUP_TIMEOUT_MS,
      pauseMs: () => LOOKUP_PAUSE_MS,
      isTransient: error => isUnreachable(error) || isContention(error),
    })
  const versions = new Map<string, number>()
  for (const table of new Set(proofs.map(proof => proof.table))) {
    const ids = proofs.filter(proof => proof.table === table).map(({ id }) => id)
    // The lock waits for the end of the transaction, in case the server is still executing its COMMIT.
    const rows = await lookUp(async () =>
      rowsOf(await knex(table).whereIn('id', ids).forShare().select('id', 'version')),
    )
    for (const { id, version } of rows) versions.set(`${table} ${id}`, Number(version))
  }
  for (const { table, id, before, after } of proofs) {
    const version = versions.get(`${table} ${id}`)
    if (version !== undefined && (version === after || version === before)) return version === after
  }
  // No row is a proof: another transaction can have deleted it. Without events, a transaction whose records are all new and absent
  // counts as not stored.
  if (await lookUp(() => hasEvents(knex, changes))) return true
  return proofs.every(({ before }) => before === undefined) && versions.size === 0 ? false : undefined
}

/**
 * Returns if the transaction was stored although COMMIT failed.
 * @throws `error` if it was not stored, ApiError `unavailable` if the outcome is unknown
 */
export async function checkStored(knex: Knex, changes: readonly Change[], error: unknown): Promise<void> {
  const proofs = proofsOf(changes)
  if (proofs.length === 0 || isContention(error)) throw error
  const stored = await wasStored(knex, proofs, changes).catch(() => undefined)
  if (stored) return
  // A server of a database cluster that is only silent can store the transaction later, and the rows can be read on another one.
  const isSilent = hasCode(error, 'ETIMEDOUT')
  if (stored === false && !isSilent) throw error
  throw unavailable(
    error,
    'the database is temporarily unavailable, and it is unknown whether this write was stored; please repeat the ' +
      'request, and send each POST with an Idempotency-Key, so that a repetition is safe',
  )
}
