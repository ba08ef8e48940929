// The entries of the unique index: which ones a write uses, and which ones another session has locked.
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import type { Database } from '../database.ts'
import { listedRows, partsOf } from '../listed-rows.ts'
import type { Columns } from '../results.ts'
import type { Statements, Transaction } from '../transaction.ts'
import { type LockMode, skipLocked } from './row-locks.ts'

/** MariaDB fails at once where a statement would have to wait for a lock. MySQL has nothing like it for INSERT and UPDATE. */
export const noWait = '/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */'

/** The values of a record in the unique index. */
type Name = readonly unknown[]

/**
 * @param mode the lock that a write needs on a record that has the name already: an INSERT with ON DUPLICATE KEY UPDATE locks it
 *   exclusively, an UPDATE shares it
 */
export function createNames(database: Database, { plural: table, unique }: Resource, mode: LockMode) {
  /** Returns the names of records. A record without one of the values has none: it conflicts with no other record. */
  function namesOf(records: readonly (Values | Row)[]): Name[] {
    const names = records.map(record => unique.map(field => record[field] ?? null))
    return names.filter(name => !name.includes(null))
  }

  /** Names an entry of the index, for the lane. Fields contain no control characters. */
  const keyOf = (name: Name): string => [table, ...name].join('\0')

  /** Returns SQL that reads the entries of `count` names, each one by the index: a scan would lock all others, too. */
  function readSql(count: number): string {
    const same = unique.map(field => `\`${table}\`.${field} = named.${field}`).join(' AND ')
    return `SELECT ${unique.map(field => `\`${table}\`.${field}`).join(', ')} FROM ${listedRows(unique, count)} AS named
      STRAIGHT_JOIN \`${table}\` FORCE INDEX (${table}_${unique.join('_')}) ON ${same}`
  }

  /** Returns the entries that exist of names. @param lock the locking clause */
  async function readNames(on: Statements, names: readonly Name[], lock = '') {
    const rows: Columns[] = []
    for (const part of partsOf(names))
      rows.push(...(await on.query(`${readSql(part.length)} ${lock}`, part.flat())))
    return rows
  }

  /** Undefined until a write has asked the server. */
  let isMariaDb: boolean | undefined

  async function readIsMariaDb(trx: Transaction): Promise<boolean> {
    const [row] = await trx.query('SELECT VERSION() AS version', [])
    return String(row?.version).includes('MariaDB')
  }

  /**
   * Fails at once, with an error that `isLocked`, if another session has locked the name of one of the records. On MariaDB,
   * the write that follows does so itself.
   */
  async function assertFree(trx: Transaction, records: readonly (Values | Row)[]): Promise<void> {
    if (isMariaDb) return
    const names = namesOf(records)
    if (names.length === 0) return
    isMariaDb ??= await readIsMariaDb(trx)
    if (!isMariaDb) await readNames(trx, names, `FOR ${mode} OF \`${table}\` NOWAIT`)
  }

  /** Returns the items of which another session has locked a name. @param namesIn returns the names that an item needs */
  async function heldItems<I>(items: readonly I[], namesIn: (item: I) => Name[]): Promise<ReadonlySet<I>> {
    const names = items.flatMap(namesIn)
    if (names.length === 0) return new Set()
    const keysOf = (rows: readonly Columns[]) => rows.map(row => keyOf(unique.map(field => row[field])))
    // A name that another session removes is still committed, and a name that it adds is not committed yet.
    const removed = keysOf(await readNames(database, names))
    return database.uncommitted(async trx => {
      const added = keysOf(await readNames(trx, names))
      const free = new Set(keysOf(await readNames(trx, names, skipLocked[mode])))
      const held = new Set([...removed, ...added].filter(key => !free.has(key)))
      return new Set(items.filter(item => namesIn(item).some(name => held.has(keyOf(name)))))
    })
  }

  return { namesOf, keyOf, assertFree, heldItems }
}
