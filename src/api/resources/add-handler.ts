// The handler that adds one record or a batch of records to the record of the path. It serves both sides of a relation.
import { type ApiError, throwFaults } from '../../core/api-error.ts'
import type { Transaction } from '../../database/transaction.ts'
import type { Precondition } from '../../database/version.ts'
import type { Add, Added } from '../../database/writing/memberships.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import { batchText, entriesOf, failed, faultyEntry, notAnObject, type Outcome } from '../requests/batch.ts'
import type { ReadBody } from '../requests/body.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { checkReference, isObject } from '../requests/validation.ts'
import { preconditionOf } from './etags.ts'
import { type Handler, notFound, objectBody, pathId } from './handler.ts'
import type { WithIdempotency } from './with-idempotency.ts'

interface AddDependencies {
  /** The resource of the record in the path. */
  readonly resource: Resource
  /** The resource of the added records. */
  readonly to: Resource
  /** The field of a batch. */
  readonly name: string
  readonly add: Add
  /** The error of an added record if one of the two records is at its limit. */
  readonly full: () => ApiError
  readonly readBody: ReadBody
  readonly withIdempotency: WithIdempotency
  readonly limits: { readonly batchEntries: number }
}

/** The record of the path. */
interface Target {
  readonly id: number
  readonly precondition: Precondition | undefined
}

export function createAddHandler(dependencies: AddDependencies): Handler {
  const { resource, to, name, full, readBody, withIdempotency, limits } = dependencies

  async function add(target: Target, ids: readonly number[], trx?: Transaction): Promise<Added[]> {
    const { id, precondition } = target
    const added = await dependencies.add(id, ids, precondition, trx)
    if (added === undefined) throw notFound(resource, id)
    if (added === 'changed') throw preconditionFailed(`the ${resource.singular} with id ${id}`)
    return added
  }

  async function addOne(target: Target, id: number, trx?: Transaction): Promise<string> {
    const [added] = await add(target, [id], trx)
    if (added === undefined || added === 'unknown') throw notFound(to, id)
    if (added === 'full') throw full()
    return recordText(to, added.row)
  }

  function outcomeOf(id: number, added: Added): Outcome {
    if (added === 'unknown') return failed(notFound(to, id), { id })
    if (added === 'full') return failed(full(), { id })
    return { text: recordText(to, added.row), result: added.created ? 'created' : 'unchanged' }
  }

  /** @param checked the entries; undefined for an entry that is not an object */
  async function addBatch(
    target: Target,
    checked: readonly (ReturnType<typeof checkReference> | undefined)[],
    valid: readonly number[],
    trx?: Transaction,
  ): Promise<string> {
    const added = (await add(target, valid, trx)).values()
    const outcomes = checked.map((entry): Outcome => {
      if (entry === undefined) return failed(notAnObject('an entry'))
      const [fault, ...faults] = entry.faults
      const { id } = entry
      if (fault !== undefined) return failed(faultyEntry([fault, ...faults]), id === undefined ? {} : { id })
      const outcome = added.next().value
      if (id === undefined || outcome === undefined) throw new Error('an entry of a batch has no outcome')
      return outcomeOf(id, outcome)
    })
    return batchText(name, outcomes)
  }

  return async ctx => {
    const id = pathId(resource, ctx.params)
    parseNoQuery(ctx.querystring)
    const target = { id, precondition: preconditionOf(ctx.req.headers) }
    const body = await objectBody(ctx, readBody)
    const entries = entriesOf(body, name, limits.batchEntries)
    if (entries !== undefined) {
      const checked = entries.map(entry => (isObject(entry) ? checkReference(to, entry) : undefined))
      const valid = checked.flatMap(entry =>
        entry?.id !== undefined && entry.faults.length === 0 ? [entry.id] : [],
      )
      const work = async (trx?: Transaction) => ({ text: await addBatch(target, checked, valid, trx) })
      return withIdempotency(ctx, work, valid.length > 0)
    }
    const { id: added, faults } = checkReference(to, body)
    throwFaults(faults)
    if (added !== undefined)
      await withIdempotency(ctx, async trx => ({ text: await addOne(target, added, trx) }))
  }
}
