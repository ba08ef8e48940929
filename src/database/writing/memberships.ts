// Adds and removes memberships. Each change also renews the version of the record, in the same transaction.
import type { Relation, Resource } from '../../model/resource.ts'
import type { Database } from '../database.ts'
import { assertRowCount } from '../driver-errors.ts'
import type { Outcome, Refusal, Result } from '../lane/outcome.ts'
import type { Item, Writer } from '../lane/writer.ts'
import type { Transaction } from '../transaction.ts'
import { newVersion, type Precondition } from '../version.ts'
import { createPairs, type Pair, pairKey } from './pairs.ts'
import { createAwaitLock, createRowLocks, rowKey } from './row-locks.ts'

/**
 * Memberships of one record to add or to remove. An outcome has the row of the other record, with its version before the write.
 * `not_found` and `precondition_failed` as the whole result are about the record itself.
 */
export interface Memberships extends Item {
  readonly action: 'add' | 'remove'
  /** `limited`: the record is of the limited side of the relation. */
  readonly side: 'limited' | 'related'
  readonly id: number
  /** The ids of the records on the other side. */
  readonly others: readonly number[]
  readonly precondition?: Precondition | undefined
}

/** The most pairs of one record that count as one key: the 200 keys of a transaction stand for at most 10,000 pairs. */
const PAIRS_PER_KEY = 50

/** @param limit maximum number of memberships of a record of the limited side */
export function createMemberships(
  database: Database,
  resource: Resource,
  relation: Relation,
  limit: number,
): Writer<Memberships> {
  const { to } = relation
  const lockLimited = createRowLocks(resource, 'update')
  const lockRelated = createRowLocks(to, 'share')
  const pairs = createPairs(relation)

  const pairsOf = ({ side, id, others }: Memberships): Pair[] =>
    others.map(other => (side === 'limited' ? { id, otherId: other } : { id: other, otherId: id }))

  const limitedIds = ({ side, id, others }: Memberships) => (side === 'limited' ? [id] : others)
  const relatedIds = ({ side, id, others }: Memberships) => (side === 'related' ? [id] : others)

  /**
   * Names the rows of the limited side; transactions share the lock of a related record. The lane limits the keys of a transaction, so
   * the name of a record with many pairs is repeated.
   */
  function keysOf({ side, id, others }: Memberships): string[] {
    if (side === 'related') return others.map(other => rowKey(resource, other))
    const count = Math.max(1, Math.ceil(others.length / PAIRS_PER_KEY))
    return Array.from({ length: count }, () => rowKey(resource, id))
  }

  // The ids make the new versions differ from each other. A scan of a small table would lock all of its rows.
  const renewSql = `UPDATE \`${resource.plural}\` FORCE INDEX (PRIMARY) SET version = ? ^ id WHERE id IN (?)`

  /** Locks the rows of items, and reads the memberships of those items whose rows no other session has locked. */
  async function prepare(trx: Transaction, items: readonly Memberships[]) {
    // Every membership change locks the rows of the limited side first, to protect their limits and versions.
    const limited = await lockLimited(trx, items.flatMap(limitedIds), items.length === 1)
    const related = await lockRelated(trx, items.flatMap(relatedIds))
    const isFree = (item: Memberships) =>
      !limitedIds(item).some(id => limited.skippedIds.has(id)) &&
      !relatedIds(item).some(id => related.skippedIds.has(id))
    const free = items.filter(isFree)
    const idsOf = (some: readonly Memberships[]) => [...new Set(some.flatMap(pairsOf).map(({ id }) => id))]
    const otherIds = [...new Set(free.flatMap(pairsOf).map(({ otherId }) => otherId))]
    const existing = await pairs.existing(trx, idsOf(free), otherIds)
    const counts = await pairs.counts(trx, idsOf(free.filter(({ action }) => action === 'add')))
    return {
      free: new Set(free),
      /** The rows of both sides, by id. */
      limited: limited.rows,
      related: related.rows,
      before: new Set(existing),
      existing,
      counts,
      /** The pairs that an item has added or removed, by key. */
      touched: new Map<string, Pair>(),
      token: newVersion(),
    }
  }
  /** What a transaction works on. Its items change it one after the other. */
  type State = Awaited<ReturnType<typeof prepare>>

  function change(state: State, action: Memberships['action'], pair: Pair): Refusal | boolean {
    const { existing, counts, touched } = state
    const key = pairKey(pair)
    const count = counts.get(pair.id) ?? 0
    if (action === 'add') {
      if (existing.has(key)) return false
      if (count >= limit) return 'full'
      existing.add(key)
    } else if (!existing.delete(key)) return 'membership_not_found'
    counts.set(pair.id, action === 'add' ? count + 1 : count - 1)
    touched.set(key, pair)
    return true
  }

  function applyPair(trx: Transaction, state: State, item: Memberships, pair: Pair): Outcome {
    const { side, action, origin } = item
    const owner = state.limited.get(pair.id)
    const row = side === 'limited' ? state.related.get(pair.otherId) : owner
    if (row === undefined || owner === undefined)
      return action === 'add' ? 'not_found' : 'membership_not_found'
    const changed = change(state, action, pair)
    if (typeof changed === 'string') return changed
    if (changed) {
      const after = Number(BigInt(state.token) ^ BigInt(pair.id))
      // A later item of this transaction compares its precondition with the new version.
      state.limited.set(pair.id, { ...owner, version: after })
      const type = action === 'add' ? 'joined' : 'left'
      trx.record({ type, resource, relation, ...pair, before: owner.version, after, origin })
    }
    return { row, changed }
  }

  function applyItem(trx: Transaction, state: State, item: Memberships): Result {
    const record = state[item.side].get(item.id)
    if (record === undefined) return 'not_found'
    if (item.precondition?.(record.version) === false) return 'precondition_failed'
    return pairsOf(item).map(pair => applyPair(trx, state, item, pair))
  }

  async function store(trx: Transaction, { before, existing, touched, token }: State): Promise<void> {
    if (touched.size === 0) return
    const all = [...touched]
    const gone = all.flatMap(([key, pair]) => (before.has(key) && !existing.has(key) ? [pair] : []))
    const added = all.flatMap(([key, pair]) => (!before.has(key) && existing.has(key) ? [pair] : []))
    await pairs.remove(trx, gone)
    await pairs.insert(trx, added)
    const ids = [...new Set(Array.from(touched.values(), ({ id }) => id))]
    assertRowCount(resource.plural, await trx.execute(renewSql, [token, ids]), ids.length)
  }

  return database.createWriter<Memberships>({
    keysOf,
    awaitLock: createAwaitLock(resource, limitedIds),

    async apply(trx, items) {
      const state = await prepare(trx, items)
      const results = items.map(item => (state.free.has(item) ? applyItem(trx, state, item) : 'locked'))
      await store(trx, state)
      return results
    },
  })
}
