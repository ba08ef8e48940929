// Deletes records and their memberships.
import type { Resource } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import { isLocked } from '../driver-errors.ts'
import type { Outcome } from '../lane/outcome.ts'
import type { Item } from '../lane/writer.ts'
import { deleteByIds } from '../listed-rows.ts'
import type { Transaction } from '../transaction.ts'
import type { Precondition } from '../version.ts'
import { createEndMemberships, type Deletable } from './ended-memberships.ts'
import { createAwaitLock, createRowLocks, rowKey } from './row-locks.ts'

/** Deletes records, in the order of their ids, if their versions meet `precondition`. */
interface Deletion extends Item {
  readonly ids: readonly number[]
  readonly precondition?: Precondition | undefined
  /** The maximum number of members that its next transaction removes. */
  readonly portion: { rows: number }
}

/**
 * Deletes records. There is an outcome for each id; an id that comes twice is `not_found` the second time.
 *
 * The members of a group can be millions. They are removed in portions, each in a transaction of its own, and
 * the group with the last one. Meanwhile, a reader sees the group with fewer and fewer members. Each of these
 * states is consistent: totals, filters and includes agree. After a failure, or if the version changes
 * meanwhile, the group remains with the members that are left, and can be deleted again. Members that are added
 * meanwhile are removed, too. Several records share a transaction if their memberships fit into one portion.
 */
type Delete = (deletion: Omit<Deletion, 'portion'>) => Promise<readonly Outcome[]>

/** A portion takes less than a second, far less than the time limit of a statement. */
const PORTION_ROWS = 10_000
const MAX_HALVINGS = 7
/** The most records that a transaction deletes: its statements list them. */
const MAX_RECORDS = 1000

/**
 * @param resources all resources, which can have relations to `resource`
 * @param maxRows maximum number of members that one transaction removes. A record of the limited side, with all of its
 *   memberships, can exceed it.
 */
export function createDelete(
  database: Database,
  resource: Resource,
  resources: readonly Resource[],
  maxRows = PORTION_ROWS,
): Delete {
  const table = `\`${resource.plural}\``
  const leastRows = Math.ceil(maxRows / 2 ** MAX_HALVINGS)
  const lockRows = createRowLocks(resource, 'update')
  const endMemberships = createEndMemberships(resource, resources)

  /**
   * Deletes the first ones of some records, as many as have less than a portion of memberships together. If the first record alone has
   * more members, a portion of them is removed, and no record.
   * @returns the deleted records
   */
  async function deleteFirst(trx: Transaction, records: readonly Deletable[], portion: number) {
    let first = records.slice(0, MAX_RECORDS)
    // The half of one record is none.
    while (first.length > 0 && !(await endMemberships(trx, first, portion)))
      first = first.slice(0, first.length >> 1)
    const ids = first.map(({ row }) => row.id)
    if (ids.length > 0) await deleteByIds(trx, table, ids)
    for (const { row, origin } of first)
      trx.record({ type: 'deleted', resource, id: row.id, before: row.version, after: undefined, origin })
    return first
  }

  const { write } = database.createWriter<Deletion>({
    keysOf: ({ ids }) => ids.map(id => rowKey(resource, id)),
    awaitLock: createAwaitLock(resource, ({ ids }) => ids),

    async apply(trx, items) {
      const { rows, skippedIds } = await lockRows(
        trx,
        items.flatMap(({ ids }) => ids),
        items.length === 1,
      )
      const free = items.filter(({ ids }) => !ids.some(id => skippedIds.has(id)))
      const deletable = new Map<number, Deletable>()

      /** Returns for each id why it is refused, or the record, which can come twice. */
      const plan = ({ ids, precondition, origin }: Deletion) =>
        ids.map(id => {
          const row = rows.get(id)
          if (row === undefined) return 'not_found'
          const known = deletable.get(id)
          if (known !== undefined) return known
          if (precondition?.(row.version) === false) return 'precondition_failed'
          const record = { row, origin }
          deletable.set(id, record)
          return record
        })

      const plans = new Map(free.map(item => [item, plan(item)]))
      const portionRows = Math.min(...free.map(({ portion }) => portion.rows))
      const setPortion = (rows: number) => {
        for (const { portion } of free) portion.rows = rows
      }
      // On a database cluster, a large portion conflicts with each write of one of its members through another node, and so with
      // every try under load: the next one has a smaller portion. A lock of another session would be met with a smaller one as well.
      setPortion(Math.max(leastRows, Math.ceil(portionRows / 2)))
      const deleted = await deleteFirst(trx, [...deletable.values()], portionRows).catch((error: unknown) => {
        if (isLocked(error)) setPortion(portionRows)
        throw error
      })
      const unreported = new Set(deleted)

      /** Returns the outcomes of the first records of an item: the next transaction deletes the others. */
      function outcomesOf(planned: ReturnType<typeof plan>): Outcome[] {
        const outcomes: Outcome[] = []
        for (const one of planned) {
          if (typeof one === 'string') outcomes.push(one)
          else if (unreported.delete(one)) outcomes.push({ row: one.row, changed: true })
          else if (deleted.includes(one)) outcomes.push('not_found')
          else break
        }
        return outcomes
      }

      return items.map(item => {
        const planned = plans.get(item)
        return planned === undefined ? 'locked' : outcomesOf(planned)
      })
    },
  })

  return async deletion => {
    const outcomes: Outcome[] = []
    const portion = { rows: maxRows }
    while (outcomes.length < deletion.ids.length) {
      const result = await write({ ...deletion, ids: deletion.ids.slice(outcomes.length), portion })
      if (typeof result === 'string') throw new Error(`a deletion was refused: ${result}`)
      outcomes.push(...result)
      portion.rows = Math.min(maxRows, 4 * portion.rows)
    }
    return outcomes
  }
}
