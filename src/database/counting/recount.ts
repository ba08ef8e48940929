// Compares the kept counts with the tables and corrects them, also while other processes write.
import type { Resource } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import { partsOf } from '../listed-rows.ts'
import type { Statements } from '../transaction.ts'
import { BLOCK_IDS, insertCountChanges, membersKind, SLOT_IDS } from './counts.ts'
import { excludeEarlierSql } from './earlier-versions.ts'

/** A kind of counts and the table that it counts. */
interface Source {
  readonly kind: string
  readonly table: string
  /** SQL expressions for the slot and the block of a row. */
  readonly slot: string
  readonly block: string
  /** Names what a count counts: `users 0 to 2047`; `groups.members 7, users 0 to 16383`. */
  readonly idsOf: (slot: number, block: number) => string
}

const range = (part: number, size: number) => `${part * size} to ${(part + 1) * size - 1}`

const sourcesOf = (resource: Resource): Source[] => [
  {
    kind: resource.plural,
    table: resource.plural,
    slot: `id DIV ${SLOT_IDS}`,
    block: '0',
    idsOf: slot => `${resource.plural} ${range(slot, SLOT_IDS)}`,
  },
  ...resource.relations.map(({ to, table, fromKey, toKey }) => ({
    kind: membersKind(to),
    table,
    slot: toKey,
    block: `${fromKey} DIV ${BLOCK_IDS}`,
    idsOf: (slot: number, block: number) =>
      `${membersKind(to)} ${slot}, ${resource.plural} ${range(block, BLOCK_IDS)}`,
  })),
]

export function createRecount(database: Database, resources: readonly Resource[]) {
  const sources = new Map(resources.flatMap(sourcesOf).map(source => [source.kind, source]))
  const kept = (table: string) =>
    `SELECT kind, slot, block, amount AS kept, 0 AS actual FROM ${table} WHERE kind IN (?)`
  const actual = ({ table, slot, block }: Source) =>
    `SELECT ?, ${slot}, ${block}, 0, COUNT(*) FROM \`${table}\` GROUP BY 2, 3`
  // One statement, so that it reads both sides in one snapshot. A write changes both sides by the same amount in one
  // transaction. The difference is therefore the same before, during and after all concurrent writes.
  const sides = [kept('counts'), kept('count_changes'), ...Array.from(sources.values(), actual)]
  const findSql = `SELECT kind, slot, block, SUM(kept) AS kept, SUM(actual) AS actual
    FROM (${sides.join(' UNION ALL ')}) AS sides
    GROUP BY kind, slot, block HAVING SUM(kept) <> SUM(actual) ORDER BY kind, slot, block`
  const kinds = [...sources.keys()]

  async function compare(on: Statements) {
    const rows = await on.query(findSql, [kinds, kinds, ...kinds])
    return rows.flatMap(row => {
      const source = sources.get(String(row.kind))
      if (source === undefined) return []
      const { kind, idsOf } = source
      const [slot, block] = [Number(row.slot), Number(row.block)]
      const [kept, actual] = [Number(row.kept), Number(row.actual)]
      return [{ kind, slot, block, ids: idsOf(slot, block), kept, actual }]
    })
  }

  /**
   * Returns the counts that are not the number of rows in the table. A scan of MySQL can skip a row while the purge of deleted
   * rows merges pages of the index (https://bugs.mysql.com/bug.php?id=114248 is such a case), so a difference is one that two
   * comparisons find.
   */
  async function find(on: Statements) {
    const first = await compare(on)
    if (first.length === 0) return []
    const keyOf = ({ kind, slot, block, kept, actual }: (typeof first)[number]) =>
      [kind, slot, block, actual - kept].join()
    const keys = new Set(first.map(keyOf))
    return (await compare(on)).filter(difference => keys.has(keyOf(difference)))
  }

  return {
    find: () => find(database),

    /**
     * Corrects the counts.
     * @param excludesEarlier whether versions before migration 008 refuse to start from then on; none of them may still run
     * @returns the differences that it found
     */
    correct: (excludesEarlier = false) =>
      database.transaction(async trx => {
        // Two recounts would correct the same difference twice. This row makes the second one wait for the first.
        await trx.execute('UPDATE schema_info SET recounts = recounts + 1 WHERE id = 1', [])
        const differences = await find(trx)
        const corrections = differences.map(({ kept, actual, ...place }) => ({
          ...place,
          amount: actual - kept,
        }))
        for (const part of partsOf(corrections)) await insertCountChanges(trx, part)
        if (excludesEarlier) await trx.execute(excludeEarlierSql, [])
        return differences
      }),
  }
}
