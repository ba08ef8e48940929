// Finds out on another connection whether a transaction was stored, if the answer to its COMMIT is lost.
// See decisions/lost-commit.md.
import type { Knex } from 'knex'
import { unavailable } from '../core/api-error.ts'
import { hasCode } from '../core/error-reason.ts'
import { retry } from '../core/retry.ts'
import type { Change, Versions } from './changes.ts'
import { isContention, isUnreachable } from './driver-errors.ts'
import { rowsOf } from './results.ts'

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

/**
 * Returns whether a transaction was stored; undefined if the rows do not tell.
 * @param versionOf returns the version that a row has now; undefined if it does not exist
 */
function isStored(
  proofs: readonly Proof[],
  versionOf: (proof: Proof) => number | undefined,
): boolean | undefined {
  const absent = new Set<boolean | undefined>()
  for (const proof of proofs) {
    const version = versionOf(proof)
    const stored = version === proof.after ? true : version === proof.before ? false : undefined
    // A row that exists is a proof. One that does not may have been deleted by another transaction. If all rows are new and absent,
    // the transaction counts as not stored: none of its records exists.
    if (version !== undefined && stored !== undefined) return stored
    absent.add(stored)
  }
  const [stored] = absent
  return absent.size === 1 ? stored : undefined
}

/** Returns undefined if the outcome is unknown: other transactions have changed the rows since. */
async function wasStored(knex: Knex, proofs: readonly Proof[]): Promise<boolean | undefined> {
  const versions = new Map<string, number>()
  for (const table of new Set(proofs.map(proof => proof.table))) {
    const ids = proofs.filter(proof => proof.table === table).map(({ id }) => id)
    // The lock waits for the end of the transaction, in case the server is still executing its COMMIT.
    const read = async () => rowsOf(await knex(table).whereIn('id', ids).forShare().select('id', 'version'))
    const rows = await retry(read, {
      timeoutMs: LOOKUP_TIMEOUT_MS,
      pauseMs: () => LOOKUP_PAUSE_MS,
      isTransient: error => isUnreachable(error) || isContention(error),
    })
    for (const { id, version } of rows) versions.set(`${table} ${id}`, Number(version))
  }
  return isStored(proofs, ({ table, id }) => versions.get(`${table} ${id}`))
}

/**
 * Returns if the transaction was stored although COMMIT failed.
 * @throws `error` if it was not stored, ApiError `unavailable` if the outcome is unknown
 */
export async function checkStored(knex: Knex, changes: readonly Change[], error: unknown): Promise<void> {
  const proofs = proofsOf(changes)
  if (proofs.length === 0 || isContention(error)) throw error
  const stored = await wasStored(knex, proofs).catch(() => undefined)
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
