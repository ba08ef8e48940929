// Creates the write functions of a resource and of memberships, for tests that use the database without a service.
import type { Origin } from '../../src/database/changes.ts'
import type { Database } from '../../src/database/database.ts'
import type { Outcome, Refusal, Result } from '../../src/database/lane/outcome.ts'
import type { Item, WriterOptions } from '../../src/database/lane/writer.ts'
import type { Transaction } from '../../src/database/transaction.ts'
import type { Precondition } from '../../src/database/version.ts'
import { createDelete } from '../../src/database/writing/delete.ts'
import { createInsert } from '../../src/database/writing/insert.ts'
import { createMemberships, type Memberships } from '../../src/database/writing/memberships.ts'
import { createUpdate } from '../../src/database/writing/update.ts'
import { resources } from '../../src/model/index.ts'
import type { Resource } from '../../src/model/resource.ts'
import type { Row, Values } from '../../src/model/row.ts'
import { users } from '../../src/model/users.ts'
import { relation } from './relation.ts'

export const origin: Origin = { by: null, requestId: 'test' }

/** Returns the database, with `around` called wherever one of its writers applies items. */
export const wrapApply = (
  database: Database,
  around: <T>(trx: Transaction, apply: () => Promise<T>) => Promise<T>,
): Database => ({
  ...database,
  createWriter: <I extends Item>(options: WriterOptions<I>) =>
    database.createWriter<I>({
      ...options,
      apply: (trx, items) => around(trx, () => options.apply(trx, items)),
    }),
})

/** The row of a record that was stored, or why it was not. */
const rowOf = (outcome: Outcome): Row | Refusal => (typeof outcome === 'object' ? outcome.row : outcome)

/** The row of a new record; undefined if it exists already. */
function createdOf(outcome: Outcome): Row | undefined {
  if (typeof outcome === 'object') return outcome.row
  if (outcome === 'exists') return undefined
  throw new Error(outcome)
}

/** The only outcome of a write of one record. */
function only(result: Result): Outcome {
  if (typeof result === 'string') return result
  const [outcome, ...others] = result
  if (outcome === undefined || others.length > 0) throw new Error(`${result.length} outcomes`)
  return outcome
}

export function createWriters(database: Database, resource: Resource, portionRows?: number) {
  const insert = createInsert(database, resource)
  const update = createUpdate(database, resource)
  const remove = createDelete(database, resource, resources, portionRows)
  return {
    /** Returns undefined for a record that exists already. */
    async insertMany(entries: readonly Values[]): Promise<(Row | undefined)[]> {
      const result = await insert.write({ origin, entries })
      if (typeof result === 'string') throw new Error(result)
      return result.map(createdOf)
    },
    /** Returns undefined if the record exists already. */
    insertOne: async (values: Values) => createdOf(only(await insert.write({ origin, entries: [values] }))),
    update: async (id: number, values: Values, precondition?: Precondition) =>
      rowOf(only(await update.write({ origin, patches: [{ id, values, precondition }] }))),
    remove: async (id: number, precondition?: Precondition): Promise<'removed' | Refusal> => {
      const outcome = only(await remove({ origin, ids: [id], precondition }))
      return typeof outcome === 'object' ? 'removed' : outcome
    },
  }
}

/** Creates the write functions of the memberships of users in groups. @param limit the maximum number of a user */
export function createMemberWriters(database: Database, limit = 1000) {
  const { write } = createMemberships(database, users, relation, limit)
  const add =
    (side: Memberships['side']) =>
    (id: number, others: readonly number[], precondition?: Precondition): Promise<Result> =>
      write({ origin, action: 'add', side, id, others, precondition })
  return {
    add: add('limited'),
    addMembers: add('related'),
    remove: async (id: number, other: number): Promise<'removed' | Refusal> => {
      const outcome = only(await write({ origin, action: 'remove', side: 'limited', id, others: [other] }))
      return typeof outcome === 'object' ? 'removed' : outcome
    },
  }
}
