// The handlers that change the memberships of both sides of a relation, and that list the related records of one record.
import type { ApiError, Faults } from '../../core/api-error.ts'
import type { CompleteLoader } from '../../database/reading/record-loader.ts'
import type { Transaction } from '../../database/transaction.ts'
import { type Add, createMemberships } from '../../database/writing/memberships.ts'
import { collectionText, recordText } from '../../model/representation.ts'
import { idName, type LimitedRelation, parseId, type Relation, type Resource } from '../../model/resource.ts'
import { notFound, notMember, tooManyMemberships, versionMismatch } from '../errors.ts'
import { listMeta } from '../page-meta.ts'
import type { Outcome } from '../requests/batch.ts'
import { parseNoQuery, parsePagingQuery } from '../requests/query.ts'
import { checkReference, type JsonObject, type Reference } from '../requests/validation.ts'
import { assertAcceptsJson, respond, respondRead } from '../respond.ts'
import type { CheckPath, Handler, PathParams } from '../router.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { objectBody, pathId, type Shared } from './handler.ts'
import { postWork } from './post-work.ts'

/** @param loader its complete records have the related records alone, as the JSON text of an array */
export function createMembershipHandlers(
  resource: Resource,
  relation: LimitedRelation,
  loader: CompleteLoader,
  { limits, database, counts, readBody, withIdempotency }: Shared,
) {
  const { to, name } = relation
  const etags = createEtags(resource)
  const maxMemberships = relation.maxPerRecord(limits)
  const memberships = createMemberships(database, counts, resource, relation, maxMemberships)

  /**
   * Returns the handler that adds one record or a batch of records to the record of the path.
   * @param target the resource of the record in the path
   * @param added the resource of the added records, and the field of a batch
   */
  const addHandler =
    (target: Resource, { to, name }: Pick<Relation, 'to' | 'name'>, add: Add): Handler =>
    async ctx => {
      const id = pathId(target, ctx.params)
      parseNoQuery(ctx.querystring)
      const precondition = preconditionOf(ctx.req.headers)
      const write = async (references: readonly Reference[], trx?: Transaction) => {
        const ids = references.flatMap(reference => reference.id ?? [])
        const outcomes = await add(id, ids, precondition, trx)
        if (outcomes === undefined) throw notFound(target, id)
        if (outcomes === 'changed') throw versionMismatch(target, id)
        return ids.map((addedId, at): ApiError | Outcome => {
          const outcome = outcomes[at]
          if (outcome === undefined || outcome === 'unknown') return notFound(to, addedId)
          if (outcome === 'full') return tooManyMemberships(resource, maxMemberships, relation)
          return { text: recordText(to, outcome.row), result: outcome.created ? 'created' : 'unchanged' }
        })
      }
      const body = await objectBody(ctx, readBody)
      const check = (reference: JsonObject, faults: Faults) => checkReference(to, reference, faults)
      const outcomeOf = (outcome: ApiError | Outcome) => outcome
      await withIdempotency(ctx, postWork(body, name, limits.batchEntries, { check, write, outcomeOf }))
    }

  const list: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    const query = parsePagingQuery(ctx.querystring, maxMemberships, limits)
    assertAcceptsJson(ctx)
    const complete = await loader(id)
    if (complete === undefined) throw notFound(resource, id)
    const related: Record<string, unknown>[] = JSON.parse(complete.included)
    const shown = related.slice(query.startIndex, query.startIndex + query.recordsPerPage)
    const texts = shown.map(record => recordText(to, record))
    const text = collectionText(name, texts, listMeta(ctx.path, query, texts.length, related.length))
    respondRead(ctx, etags.complete(complete.row), text)
  }

  /** Returns the ids in the path of a membership. @throws ApiError with status 404 if one is not a valid id */
  function pathIds(params: PathParams) {
    const id = pathId(resource, params)
    const text = params[idName(to)] ?? ''
    const other = parseId(text)
    if (other === undefined) throw notMember(resource, id, to, text)
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
    if (outcome === 'changed') throw versionMismatch(resource, id)
    if (outcome === 'no member') throw notMember(resource, id, to, other)
    const message = `${resource.singular} ${id} removed from ${to.singular} ${other}`
    respond(ctx, JSON.stringify({ meta: { status: 200, message } }))
  }

  return {
    list,
    create: addHandler(resource, relation, memberships.add),
    createMembers: addHandler(to, { to: resource, name: resource.plural }, memberships.addMembers),
    remove,
    checkMember,
  }
}
