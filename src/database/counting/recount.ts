// Compares the kept counts with the tables and corrects them, also while other processes write.
import type { Knex } from 'knex'
import { limitedRelations, type Resource } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import { type Counts, membersKind, SLOT_IDS } from './counts.ts'

/** A count that is not the number of rows in the table. */
interface Difference {
  readonly kind: string
  readonly slot: number
  /** What is counted: `users 0 to 2047`, `groups.members 7`. */
  readonly ids: string
  readonly kept: number
  readonly actual: number
}

/** A kind of counts and the table that it counts. */
interface Source {
  readonly kind: string
  readonly table: string
  /** An SQL expression for the slot of a row. */
  readonly slot: string
  /** The resource whose record, with the slot as its id, has the count. */
  readonly owner?: Resource
}

const sourcesOf = (resources: readonly Resource[]): Source[] =>
  resources.flatMap((resource): Source[] => [
    { kind: resource.plural, table: resource.plural, slot: `id DIV ${SLOT_IDS}` },
    ...limitedRelations(resource).map(({ to, table, otherKey }) => ({
      kind: membersKind(to),
      table,
      slot: otherKey,
      owner: to,
    })),
  ])

export interface Recount {
  /** Returns the differences. */
  find(): Promise<Difference[]>
  /** Corrects the counts. @returns the differences that it found */
  correct(): Promise<Difference[]>
}

export function createRecount(database: Database, counts: Counts, resources: readonly Resource[]): Recount {
  const sources = sourcesOf(resources)
  const kept = (table: string) =>
    `SELECT kind, slot, amount AS kept, 0 AS actual FROM ${table} WHERE kind IN (?)`
  const actual = ({ table, slot }: Source) =>
    `SELECT ?, ${slot}, 0, COUNT(*) FROM \`${table}\` GROUP BY ${slot}`
  // One statement, so that it reads both sides in one snapshot. A write changes both sides by the same amount in one
  // transaction. The difference is therefore the same before, during and after all concurrent writes.
  const findSql = `SELECT kind, slot, SUM(kept) AS kept, SUM(actual) AS actual
    FROM (${[kept('counts'), kept('count_changes'), ...sources.map(actual)].join(' UNION ALL ')}) AS sides
    GROUP BY kind, slot HAVING SUM(kept) <> SUM(actual) ORDER BY kind, slot`
  const kinds = sources.map(({ kind }) => kind)
  const ownerOf = (kind: string) => sources.find(source => source.kind === kind)?.owner

  async function find(on?: Knex.Transaction): Promise<Difference[]> {
    const rows = await database.query(findSql, [kinds, kinds, ...kinds], on)
    return rows.map(row => {
      const [kind, slot] = [String(row.kind), Number(row.slot)]
      const range = `${slot * SLOT_IDS} to ${(slot + 1) * SLOT_IDS - 1}`
      const ids = `${kind} ${ownerOf(kind) === undefined ? range : slot}`
      return { kind, slot, ids, kept: Number(row.kept), actual: Number(row.actual) }
    })
  }

  async function correctOne(trx: Knex.Transaction, { kind, slot, kept, actual }: Difference): Promise<void> {
    const owner = ownerOf(kind)
    // The lock keeps the record from being deleted, and its count with it. A count without its record is deleted.
    if (
      owner !== undefined &&
      (await trx(owner.plural).where({ id: slot }).forShare().first('id')) === undefined
    )
      await counts.deleteMemberCount(trx, owner, slot)
    else await counts.record(trx, [{ kind, slot, amount: actual - kept }])
  }

  return {
    find,
    correct: () =>
      database.transaction(async trx => {
        // Two recounts would correct the same difference twice. This row makes the second one wait for the first.
        await trx('schema_info').where({ id: 1 }).increment('recounts')
        const differences = await find(trx)
        for (const difference of differences) await correctOne(trx, difference)
        return differences
      }),
  }
}
