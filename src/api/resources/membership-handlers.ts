// The handlers that change the memberships of both sides of a relation, and that list the related records of one record.
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { RecordLoader } from '../../database/reading/record-loader.ts'
import type { Memberships } from '../../database/writing/memberships.ts'
import { collectionText, recordText } from '../../model/representation.ts'
import { type LimitedRelation, parseId, type Resource } from '../../model/resource.ts'
import type { ReadBody } from '../requests/body.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { parseNoQuery, parsePagingQuery } from '../requests/query.ts'
import { assertAcceptsJson, respond, respondRead } from '../respond.ts'
import { createAddHandler } from './add-handler.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { type CheckPath, type Handler, idName, notFound, type PathParams, pathId } from './handler.ts'
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

export function createMembershipHandlers(dependencies: MembershipDependencies) {
  const { resource, relation, loader, memberships, limits } = dependencies
  const { to, name } = relation
  const etags = createEtags(resource)
  const maxMemberships = relation.maxPerRecord(limits)
  const full = () =>
    new ApiError('limit_exceeded', `a ${resource.singular} can have at most ${maxMemberships} ${name}`)

  const create = createAddHandler({ ...dependencies, to, name, add: memberships.add, full })
  /** Adds records to a record of the other side. */
  const createMembers = createAddHandler({
    ...dependencies,
    resource: to,
    to: resource,
    name: resource.plural,
    add: memberships.addMembers,
    full,
  })

  const list: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
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

  const noMember = (id: number, other: string | number) =>
    new ApiError('membership_not_found', `${resource.singular} ${id} is not in ${to.singular} ${other}`)

  /** Returns the ids in the path of a membership. @throws ApiError with status 404 if one is not a valid id */
  function pathIds(params: PathParams) {
    const id = pathId(resource, params)
    const text = params[idName(to)] ?? ''
    const other = parseId(text)
    if (other === undefined) throw noMember(id, text)
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
    if (outcome === 'changed') throw preconditionFailed(`the ${resource.singular} with id ${id}`)
    if (outcome === 'no member') throw noMember(id, other)
    const message = `${resource.singular} ${id} removed from ${to.singular} ${other}`
    respond(ctx, JSON.stringify({ meta: { status: 200, message } }))
  }

  return { list, create, createMembers, remove, checkMember }
}
