// The operations on a record's related ones: which there are, one more, one less.
import { answer, assertAcceptsJson } from '../http/answer.ts'
import type { ReadBody } from '../http/body.ts'
import { ApiError, refuse } from '../http/errors.ts'
import type { Lookups } from '../store/lookups.ts'
import type { Added, Memberships } from '../store/memberships.ts'
import { batchText, entriesOf, failed, notAnObject, type Outcome } from './batch.ts'
import { parseId, type Relation, type Resource } from './definition.ts'
import { type Handler, notFound, objectBody, pathId } from './handlers.ts'
import { listMeta } from './paging.ts'
import { parseNoQuery, parsePagingQuery, type QueryLimits } from './query.ts'
import { collectionText, recordText } from './representation.ts'
import { checkReference, isObject } from './validation.ts'

export interface RelationDependencies {
  readonly resource: Resource
  readonly relation: Relation
  readonly lookups: Lookups
  readonly memberships: Memberships
  readonly readBody: ReadBody
  readonly limits: QueryLimits & { readonly batchEntries: number; readonly membershipsPerUser: number }
}

export function createRelationHandlers(dependencies: RelationDependencies) {
  const { resource, relation, lookups, memberships, readBody, limits } = dependencies
  const { to, name } = relation
  const most = limits.membershipsPerUser
  const full = () => new ApiError('limit_exceeded', `a ${resource.singular} can have at most ${most} ${name}`)

  /** The related records of one moment, or undefined where there is no such id. */
  async function relatedOf(id: number): Promise<Record<string, unknown>[] | undefined> {
    const complete = await lookups.findComplete(id)
    return complete && JSON.parse(complete.included)
  }

  const list: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    const query = parsePagingQuery(ctx.querystring, most, limits)
    assertAcceptsJson(ctx)
    const related = await relatedOf(id)
    if (related === undefined) throw notFound(resource, id)
    const shown = related.slice(query.startIndex, query.startIndex + query.recordsPerPage)
    const texts = shown.map(record => recordText(to, record))
    answer(ctx, collectionText(name, texts, listMeta(ctx.path, query, texts.length, related.length)))
  }

  async function add(id: number, others: readonly number[]): Promise<Added[]> {
    const added = await memberships.add(id, others)
    if (added === undefined) throw notFound(resource, id)
    return added
  }

  function outcomeOf(id: number, added: Added): Outcome {
    if (added === 'unknown') return failed(notFound(to, id), { id })
    if (added === 'full') return failed(full(), { id })
    return { text: recordText(to, added.row), result: added.created ? 'created' : 'unchanged' }
  }

  async function addBatch(id: number, entries: readonly unknown[]): Promise<Outcome[]> {
    const checked = entries.map(entry => (isObject(entry) ? checkReference(to, entry) : undefined))
    const good = checked.flatMap(entry =>
      entry?.id !== undefined && entry.faults.length === 0 ? [entry.id] : [],
    )
    const added = (await add(id, good)).values()
    return checked.map((entry): Outcome => {
      if (entry === undefined) return failed(notAnObject('an entry'))
      const [fault, ...faults] = entry.faults
      const { id: other } = entry
      if (fault !== undefined)
        return failed(ApiError.of([fault, ...faults]), other === undefined ? {} : { id: other })
      const outcome = added.next().value
      if (other === undefined || outcome === undefined) throw new Error('an entry without an outcome')
      return outcomeOf(other, outcome)
    })
  }

  const create: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    parseNoQuery(ctx.querystring)
    const body = await objectBody(ctx, readBody)
    const entries = entriesOf(body, name, limits.batchEntries)
    if (entries !== undefined) return answer(ctx, batchText(name, await addBatch(id, entries)))
    const { id: other, faults } = checkReference(to, body)
    refuse(faults)
    if (other === undefined) return
    const [added] = await add(id, [other])
    if (added === undefined || added === 'unknown') throw notFound(to, other)
    if (added === 'full') throw full()
    answer(ctx, recordText(to, added.row))
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    parseNoQuery(ctx.querystring)
    assertAcceptsJson(ctx)
    const text = ctx.params.related ?? ''
    // What cannot be an id is no member of anything; 0 is nobody's id.
    const outcome = await memberships.remove(id, parseId(text) ?? 0)
    if (outcome === 'unknown') throw notFound(resource, id)
    const [one, other] = [`${resource.singular} ${id}`, `${to.singular} ${text}`]
    if (outcome === 'no member') throw new ApiError('membership_not_found', `${one} is not in ${other}`)
    answer(ctx, JSON.stringify({ meta: { status: 200, message: `${one} removed from ${other}` } }))
  }

  return { list, create, remove }
}
