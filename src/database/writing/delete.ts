// Deletes records and their memberships.
import type { Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
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

/** Finds the record of each id, which can come twice, or why it is refused. @param deletable receives the records, each once */
function findRecords(
  { ids, precondition, origin }: Deletion,
  rows: ReadonlyMap<number, Row>,
  deletable: Map<number, Deletable>,
) {
  return ids.map(id => {
    const row = rows.get(id)
    if (row === undefined) return 'not_found'
    const known = deletable.get(id)
    if (known !== undefined) return known
    if (precondition?.(row.version) === false) return 'precondition_failed'
    const record = { row, origin }
    deletable.set(id, record)
    return record
  })
}

/**
 * Returns the outcomes of the first ids of a deletion: the next transaction deletes the other records.
 * @param unreported those of the deleted records that have no outcome yet
 */
function outcomesOf(
  found: ReturnType<typeof findRecords>,
  deleted: readonly Deletable[],
  unreported: Set<Deletable>,
): Outcome[] {
  const outcomes: Outcome[] = []
  for (const one of found) {
    if (typeof one === 'string') outcomes.push(one)
    else if (unreported.delete(one)) outcomes.push({ row: one.row, changed: true })
    else if (deleted.includes(one)) outcomes.push('not_found')
    else break
  }
  return outcomes
}

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
  const { removeAll, removeMembers } = createEndMemberships(resource, resources)

  /**
   * Deletes the first ones of some records, as many as have less than a portion of memberships together. If the first record alone has
   * more members, a portion of them is removed, and no record.
   * @returns the deleted records
   */
  async function deleteFirst(
    trx: Transaction,
    records: readonly Deletable[],
    portion: number,
  ): Promise<readonly Deletable[]> {
    const [first] = records
    if (first === undefined) return []
    if (await removeAll(trx, records, portion)) {
      const ids = records.map(({ row }) => row.id)
      await deleteByIds(trx, table, ids)
      for (const { row, origin } of records)
        trx.record({ type: 'deleted', resource, id: row.id, before: row.version, after: undefined, origin })
      return records
    }
    if (records.length > 1) return deleteFirst(trx, records.slice(0, records.length >> 1), portion)
    await removeMembers(trx, first, portion)
    return []
  }

  /** Deletes some of the records in one portion, the smallest one of the items. @returns the deleted records */
  async function deletePortion(trx: Transaction, items: readonly Deletion[], records: readonly Deletable[]) {
    const rows = Math.min(...items.map(({ portion }) => portion.rows))
    const setNext = (next: number) => {
      for (const { portion } of items) portion.rows = next
    }
    // On a database cluster, a large portion conflicts at its COMMIT with each write of one of its members through another node, and
    // so with every try under load: the next one has a smaller portion. A lock of another session would be met with a smaller one, too.
    setNext(Math.max(leastRows, Math.ceil(rows / 2)))
    return deleteFirst(trx, records.slice(0, MAX_RECORDS), rows).catch((error: unknown) => {
      if (isLocked(error)) setNext(rows)
      throw error
    })
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
      const found = new Map(free.map(item => [item, findRecords(item, rows, deletable)]))
      const deleted = await deletePortion(trx, free, [...deletable.values()])
      const unreported = new Set(deleted)
      return items.map(item => {
        const records = found.get(item)
        return records === undefined ? 'locked' : outcomesOf(records, deleted, unreported)
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
