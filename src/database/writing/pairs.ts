// The rows of a join table.
import type { Relation } from '../../model/resource.ts'
import { assertRowCount } from '../driver-errors.ts'
import { deleteListedSql, partsOf } from '../listed-rows.ts'
import type { Statements, Transaction } from '../transaction.ts'

/** The ids of a record of the limited side and of a related record. */
export interface Pair {
  readonly id: number
  readonly otherId: number
}

export const pairKey = ({ id, otherId }: Pair): string => `${id} ${otherId}`

export function createPairs({ table, fromKey, toKey }: Relation) {
  const countSql = `SELECT ${fromKey} AS id, COUNT(*) AS count FROM ${table} WHERE ${fromKey} IN (?) GROUP BY ${fromKey}`
  const readSql = `SELECT ${fromKey} AS id, ${toKey} AS other_id FROM ${table}
    WHERE ${fromKey} IN (?) AND ${toKey} IN (?)`
  const insertSql = `INSERT INTO ${table} (${fromKey}, ${toKey}) VALUES ?`
  const deleteSql = (rowCount: number) => deleteListedSql(table, [fromKey, toKey], rowCount)
  const asRows = (pairs: readonly Pair[]) => pairs.map(({ id, otherId }) => [id, otherId])

  return {
    /** Returns the number of pairs of each of the records of the limited side; those without any are missing. */
    async counts(on: Statements, ids: readonly number[]): Promise<Map<number, number>> {
      const rows = ids.length === 0 ? [] : await on.query(countSql, [ids])
      return new Map(rows.map(({ id, count }) => [Number(id), Number(count)]))
    },
    /** Returns the keys of those that exist of all pairs of these ids. MariaDB would read a list of pairs without the index. */
    async existing(
      on: Statements,
      ids: readonly number[],
      otherIds: readonly number[],
    ): Promise<Set<string>> {
      const rows = ids.length === 0 || otherIds.length === 0 ? [] : await on.query(readSql, [ids, otherIds])
      return new Set(rows.map(row => pairKey({ id: Number(row.id), otherId: Number(row.other_id) })))
    },
    async insert(trx: Transaction, pairs: readonly Pair[]): Promise<void> {
      if (pairs.length > 0) await trx.execute(insertSql, [asRows(pairs)])
    },
    async remove(trx: Transaction, pairs: readonly Pair[]): Promise<void> {
      for (const part of partsOf(pairs)) {
        const removed = await trx.execute(deleteSql(part.length), asRows(part).flat())
        assertRowCount(table, removed, part.length)
      }
    },
  }
}
