// The handlers that list, add and remove the related records of one record.
import type { Knex } from 'knex'
import type { Config } from '../../config/config.ts'
import { ApiError, throwFaults } from '../../core/api-error.ts'
import type { RecordLoader } from '../../database/reading/record-loader.ts'
import type { Precondition } from '../../database/version.ts'
import type { Added, Memberships } from '../../database/writing/memberships.ts'
import { collectionText, recordText } from '../../model/representation.ts'
import { type LimitedRelation, parseId, type Resource } from '../../model/resource.ts'
import { batchText, entriesOf, failed, faultyEntry, notAnObject, type Outcome } from '../requests/batch.ts'
import type { ReadBody } from '../requests/body.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { parseNoQuery, parsePagingQuery } from '../requests/query.ts'
import { checkReference, isObject } from '../requests/validation.ts'
import { assertAcceptsJson, respond, respondRead } from '../respond.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { type CheckPath, type Handler, notFound, objectBody, type PathParams, pathId } from './handler.ts'
import { listMeta } from './page-meta.ts'
import type { WithIdempotency } from './with-idempotency.ts'

export interface MembershipDependencies {
  readonly resource: Resource
  readonly relation: LimitedRelation
  /** Its complete records have the related records alone, as the JSON text of an array. */
  readonly loader: RecordLoader
  readonly memberships: Memberships
  readonly readBody: ReadBody
  readonly withIdempotency: WithIdempotency
  readonly limits: Config['limits']
}

/** The record whose memberships change. */
interface Owner {
  readonly id: number
  readonly precondition: Precondition | undefined
}

export function createMembershipHandlers(dependencies: MembershipDependencies) {
  const { resource, relation, loader, memberships, readBody, withIdempotency, limits } = dependencies
  const { to, name } = relation
  const etags = createEtags(resource)
  const maxMemberships = relation.maxPerRecord(limits)
  const full = () =>
    new ApiError('limit_exceeded', `a ${resource.singular} can have at most ${maxMemberships} ${name}`)

  const list: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    const query = parsePagingQuery(ctx.querystring, maxMemberships, limits)
    assertAcceptsJson(ctx)
    const complete = await loader.findComplete(id)
    if (complete === undefined) throw notFound(resource, id)
    const related: Record<string, unknown>[] = JSON.parse(complete.included)
    const shown = related.slice(query.startIndex, query.startIndex + query.recordsPerPage)
    const texts = shown.map(record => recordText(to, record))
    const text = collectionText(name, texts, listMeta(ctx.path, query, texts.length, related.length))
    respondRead(ctx, etags.complete(complete.row), text)
  }

  const versionMismatch = (id: number) => preconditionFailed(`the ${resource.singular} with id ${id}`)

  async function add(owner: Owner, others: readonly number[], trx?: Knex.Transaction): Promise<Added[]> {
    const { id, precondition } = owner
    const added = await memberships.add(id, others, precondition, trx)
    if (added === undefined) throw notFound(resource, id)
    if (added === 'changed') throw versionMismatch(id)
    return added
  }

  async function addOne(owner: Owner, other: number, trx?: Knex.Transaction): Promise<string> {
    const [added] = await add(owner, [other], trx)
    if (added === undefined || added === 'unknown') throw notFound(to, other)
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
    owner: Owner,
    checked: readonly (ReturnType<typeof checkReference> | undefined)[],
    valid: readonly number[],
    trx?: Knex.Transaction,
  ): Promise<string> {
    const added = (await add(owner, valid, trx)).values()
    const outcomes = checked.map((entry): Outcome => {
      if (entry === undefined) return failed(notAnObject('an entry'))
      const [fault, ...faults] = entry.faults
      const { id: other } = entry
      if (fault !== undefined)
        return failed(faultyEntry([fault, ...faults]), other === undefined ? {} : { id: other })
      const outcome = added.next().value
      if (other === undefined || outcome === undefined) throw new Error('an entry of a batch has no outcome')
      return outcomeOf(other, outcome)
    })
    return batchText(name, outcomes)
  }

  const create: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    parseNoQuery(ctx.querystring)
    const owner = { id, precondition: preconditionOf(ctx.req.headers) }
    const body = await objectBody(ctx, readBody)
    const entries = entriesOf(body, name, limits.batchEntries)
    if (entries !== undefined) {
      const checked = entries.map(entry => (isObject(entry) ? checkReference(to, entry) : undefined))
      const valid = checked.flatMap(entry =>
        entry?.id !== undefined && entry.faults.length === 0 ? [entry.id] : [],
      )
      const work = async (trx?: Knex.Transaction) => ({ text: await addBatch(owner, checked, valid, trx) })
      return withIdempotency(ctx, work, valid.length > 0)
    }
    const { id: other, faults } = checkReference(to, body)
    throwFaults(faults)
    if (other !== undefined)
      await withIdempotency(ctx, async trx => ({ text: await addOne(owner, other, trx) }))
  }

  const noMember = (id: number, other: string | number) =>
    new ApiError('membership_not_found', `${resource.singular} ${id} is not in ${to.singular} ${other}`)

  /** Returns the ids in the path of a membership. @throws ApiError with status 404 if one is not a valid id */
  function pathIds({ id: own, related = '' }: PathParams) {
    const id = pathId(resource, own)
    const other = parseId(related)
    if (other === undefined) throw noMember(id, related)
    return { id, other }
  }
  const checkMember: CheckPath = params => void pathIds(params)

  const remove: Handler = async ctx => {
    const { id, other } = pathIds(ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    const outcome = await memberships.remove(id, other, precondition)
    if (outcome === 'unknown') throw notFound(resource, id)
    if (outcome === 'changed') throw versionMismatch(id)
    if (outcome === 'no member') throw noMember(id, other)
    const message = `${resource.singular} ${id} removed from ${to.singular} ${other}`
    respond(ctx, JSON.stringify({ meta: { status: 200, message } }))
  }

  return { list, create, remove, checkMember }
}
