// Compares the kept counts with the tables and corrects them, also while other processes write.
import { limitedRelations, type Resource } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import type { Statements, Transaction } from '../transaction.ts'
import { BLOCK_IDS, type Counts, membersKind, SLOT_IDS } from './counts.ts'
import { keepBlocksExact } from './exact-blocks.ts'

/** A count that is not the number of rows in the table. */
interface Difference {
  readonly kind: string
  readonly slot: number
  readonly block: number
  /** What is counted: `users 0 to 2047`; `groups.members 7, users 0 to 16383`. */
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
  /** Of members only. */
  readonly members?: {
    readonly resource: Resource
    /** The resource whose record, with the slot as its id, has the members. */
    readonly owner: Resource
    /** An SQL expression for the block of a row. */
    readonly block: string
  }
}

const sourcesOf = (resources: readonly Resource[]): Source[] =>
  resources.flatMap((resource): Source[] => [
    { kind: resource.plural, table: resource.plural, slot: `id DIV ${SLOT_IDS}` },
    ...limitedRelations(resource).map(({ to, table, ownKey, otherKey }) => ({
      kind: membersKind(to),
      table,
      slot: otherKey,
      members: { resource, owner: to, block: `${ownKey} DIV ${BLOCK_IDS}` },
    })),
  ])

export interface Recount {
  /** Returns the differences. */
  find(): Promise<Difference[]>
  /**
   * Corrects the counts.
   * @param keepExact makes versions that do not count by blocks refuse to serve from then on
   * @returns the differences that it found
   */
  correct(keepExact?: boolean): Promise<Difference[]>
}

const range = (part: number, size: number) => `${part * size} to ${(part + 1) * size - 1}`

export function createRecount(database: Database, counts: Counts, resources: readonly Resource[]): Recount {
  const sources = sourcesOf(resources)
  const kept = (table: string) =>
    `SELECT kind, slot, block, amount AS kept, 0 AS actual FROM ${table} WHERE kind IN (?)`
  const actual = ({ table, slot, members }: Source) =>
    members === undefined
      ? `SELECT ?, ${slot}, 0, 0, COUNT(*) FROM \`${table}\` GROUP BY ${slot}`
      : `SELECT ?, ${slot}, ${members.block}, 0, COUNT(*) FROM ${table} GROUP BY ${slot}, ${members.block}`
  // One statement, so that it reads both sides in one snapshot. A write changes both sides by the same amount in one
  // transaction. The difference is therefore the same before, during and after all concurrent writes.
  const findSql = `SELECT kind, slot, block, SUM(kept) AS kept, SUM(actual) AS actual
    FROM (${[kept('counts'), kept('count_changes'), ...sources.map(actual)].join(' UNION ALL ')}) AS sides
    GROUP BY kind, slot, block HAVING SUM(kept) <> SUM(actual) ORDER BY kind, slot, block`
  const kinds = sources.map(({ kind }) => kind)
  const membersOf = (kind: string) => sources.find(source => source.kind === kind)?.members

  async function find(on: Statements = database): Promise<Difference[]> {
    const rows = await on.query(findSql, [kinds, kinds, ...kinds])
    return rows.map(row => {
      const [kind, slot, block] = [String(row.kind), Number(row.slot), Number(row.block)]
      const members = membersOf(kind)
      const ids =
        members === undefined
          ? `${kind} ${range(slot, SLOT_IDS)}`
          : `${kind} ${slot}, ${members.resource.plural} ${range(block, BLOCK_IDS)}`
      return { kind, slot, block, ids, kept: Number(row.kept), actual: Number(row.actual) }
    })
  }

  async function correctOne(trx: Transaction, difference: Difference): Promise<void> {
    const { kind, slot, block, kept, actual } = difference
    const owner = membersOf(kind)?.owner
    // The lock keeps the record from being deleted, and its count with it. A count without its record is deleted.
    if (
      owner !== undefined &&
      (await trx.run(knex => knex(owner.plural).where({ id: slot }).forShare().first('id'))) === undefined
    )
      await counts.deleteMemberCount(trx, owner, slot)
    else await counts.record(trx, [{ kind, slot, block, amount: actual - kept }])
  }

  return {
    find,
    correct: (keepExact = false) =>
      database.transaction(async trx => {
        // Two recounts would correct the same difference twice. This row makes the second one wait for the first.
        await trx.run(knex => knex('schema_info').where({ id: 1 }).increment('recounts'))
        const differences = await find(trx)
        for (const difference of differences) await correctOne(trx, difference)
        if (keepExact) await trx.run(keepBlocksExact)
        return differences
      }),
  }
}
