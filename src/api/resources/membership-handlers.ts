// The handlers that change the memberships of both sides of a relation, and that list the related records of one record.
import { ApiError } from '../../core/api-error.ts'
import { isObject } from '../../core/json-object.ts'
import type { CompleteLoader } from '../../database/reading/record-loader.ts'
import { createMemberships, type Memberships } from '../../database/writing/memberships.ts'
import { collectionText, recordText } from '../../model/representation.ts'
import { idName, parseId, type Relation, type Resource } from '../../model/resource.ts'
import { notFound, notMember } from '../errors.ts'
import { turnFor } from '../large-texts.ts'
import { pageMeta } from '../page-meta.ts'
import { batchText, deleted, failed } from '../requests/batch.ts'
import { parseNoQuery } from '../requests/parameters.ts'
import { parseIdsQuery, parsePagingQuery } from '../requests/query.ts'
import { checkReference } from '../requests/validation.ts'
import { assertAcceptsJson, respond, respondRead } from '../respond.ts'
import type { CheckPath, Handler, PathParams } from '../router.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { originOf, pathId, refused, type Services } from './handler-parts.ts'
import type { RelatedRecords } from './membership-operations.ts'
import { postWork } from './post-work.ts'
import { respondOnce } from './with-idempotency.ts'

export function createMembershipHandlers(
  resource: Resource,
  relation: Relation,
  findComplete: CompleteLoader,
  { limits, database, idempotencyKeys, readBody }: Services,
) {
  const { to, name } = relation
  const etags = createEtags(resource)
  const maxMemberships = relation.maxPerRecord(limits)
  const full = `a ${resource.singular} can have at most ${maxMemberships} ${name}`
  const memberships = createMemberships(database, resource, relation, maxMemberships)

  /**
   * Returns the handler that adds one record or a batch of records to the record of the path.
   * @param target the resource of the record in the path
   */
  const addHandler =
    (side: Memberships['side'], target: Resource, added: RelatedRecords): Handler =>
    async ctx => {
      const id = pathId(target, ctx.params)
      parseNoQuery(ctx.querystring)
      const precondition = preconditionOf(ctx.req.headers)
      const origin = originOf(ctx)
      const work = postWork(await readBody(ctx), added.name, limits.batchEntries, {
        check: (reference, faults) => checkReference(added.to, reference, faults),
        writer: memberships,
        itemOf: (references): Memberships => {
          const others = references.flatMap(reference => reference.id ?? [])
          return { origin, action: 'add', side, id, others, precondition }
        },
        responseTo: (outcome, reference) => {
          if (outcome === 'full') return new ApiError('limit_exceeded', full)
          if (typeof outcome === 'string') return refused(added.to, outcome, reference.id)
          const text = recordText(added.to, outcome.row)
          return { text, result: outcome.changed ? 'created' : 'unchanged' }
        },
        refused: refusal => refused(target, refusal, id),
      })
      await respondOnce(ctx, idempotencyKeys, work)
    }

  const list: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    const pageOf = parsePagingQuery(ctx.querystring, maxMemberships, limits)
    assertAcceptsJson(ctx)
    const complete = await findComplete(id)
    if (complete === undefined) throw notFound(resource, id)
    await turnFor(complete.text)
    const included: unknown = JSON.parse(`{${complete.text}}`)
    const records = isObject(included) ? included[name] : undefined
    const related = Array.isArray(records) ? records.filter(isObject) : []
    const query = pageOf(related.length)
    const shown = related.slice(query.startIndex, query.startIndex + query.recordsPerPage)
    const texts = shown.map(record => recordText(to, record))
    const text = collectionText(name, texts, pageMeta(ctx.path, query, texts.length, related.length))
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

  const removedMessage = (id: number, other: number) =>
    `${resource.singular} ${id} removed from ${to.singular} ${other}`

  const remove: Handler = async ctx => {
    const { id, other } = pathIds(ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    const origin = originOf(ctx)
    const item = { origin, action: 'remove', side: 'limited', id, others: [other], precondition } as const
    const result = await memberships.write(item)
    if (typeof result === 'string') throw refused(resource, result, id)
    if (typeof result[0] === 'string') throw notMember(resource, id, to, other)
    respond(ctx, JSON.stringify({ meta: { status: 200, message: removedMessage(id, other) } }))
  }

  /**
   * Returns the handler that removes several memberships of the record of the path.
   * @param target the resource of the record in the path
   * @param name the name of the list in the response
   */
  const removeManyHandler =
    (side: Memberships['side'], target: Resource, name: string): Handler =>
    async ctx => {
      const id = pathId(target, ctx.params)
      const others = parseIdsQuery(ctx.querystring, limits.batchEntries)
      const precondition = preconditionOf(ctx.req.headers)
      assertAcceptsJson(ctx)
      const origin = originOf(ctx)
      const result = await memberships.write({ origin, action: 'remove', side, id, others, precondition })
      if (typeof result === 'string') throw refused(target, result, id)
      const responses = others.map((other, index) => {
        const [own, related] = side === 'limited' ? [id, other] : [other, id]
        if (typeof result[index] !== 'object')
          return failed(notMember(resource, own, to, related), { id: other })
        return deleted(other, removedMessage(own, related))
      })
      respond(ctx, batchText(name, responses, 'deleted'))
    }

  return {
    list,
    create: addHandler('limited', resource, relation),
    createMembers: addHandler('related', to, { to: resource, name: resource.plural }),
    remove,
    removeMany: removeManyHandler('limited', resource, name),
    removeMembers: removeManyHandler('related', to, resource.plural),
    checkMember,
  }
}
