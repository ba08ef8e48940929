// The operations on a resource: each reads its parameters, then its body, then does its work, so that faults come in the
// order of the contract.
import type { Context } from 'koa'
import { answer, assertAcceptsJson } from '../http/answer.ts'
import type { ReadBody } from '../http/body.ts'
import { ApiError, refuse } from '../http/errors.ts'
import type { Database } from '../store/database.ts'
import type { Includes } from '../store/includes.ts'
import type { Lookups } from '../store/lookups.ts'
import type { PageQuery, Records } from '../store/records.ts'
import type { Writes } from '../store/writes.ts'
import { batchText, entriesOf, failed, notAnObject, type Outcome } from './batch.ts'
import { parseId, type Resource, type Row, type Values } from './definition.ts'
import { listMeta } from './paging.ts'
import { type ListQuery, parseListQuery, parseNoQuery, parseRecordQuery, type QueryLimits } from './query.ts'
import { collectionText, recordText } from './representation.ts'
import { checkBody, isObject, type JsonObject } from './validation.ts'

export interface HandlerDependencies {
  readonly resource: Resource
  readonly database: Database
  readonly records: Records
  readonly lookups: Lookups
  readonly writes: Writes
  /** Of the resource's relation, if it has one. */
  readonly includes?: Includes | undefined
  readonly readBody: ReadBody
  readonly limits: QueryLimits & { readonly batchEntries: number }
}

export type Handler = (ctx: Context & { params: Record<string, string> }) => Promise<void>

export const notFound = ({ singular }: Resource, id: string | number) =>
  new ApiError(`${singular}_not_found`, `there is no ${singular} with the id ${id}`)

/** The id in the path. @throws ApiError 404 for what cannot be one */
export function pathId(resource: Resource, text = ''): number {
  const id = parseId(text)
  if (id === undefined) throw notFound(resource, text)
  return id
}

/** Sees to the media types, then reads the body. @throws ApiError */
export async function objectBody(ctx: Context, readBody: ReadBody): Promise<JsonObject> {
  assertAcceptsJson(ctx)
  const body = await readBody(ctx)
  if (!isObject(body)) throw notAnObject('the body')
  return body
}

export function createHandlers(dependencies: HandlerDependencies) {
  const { resource, database, records, lookups, writes, includes, readBody, limits } = dependencies
  const { singular, plural } = resource
  const exists = () => new ApiError(`${singular}_exists`, `${singular} already exists`)

  /** Rows and what they embed, of one moment. */
  async function pageWithIncludes(query: PageQuery, from: Includes) {
    const page = await records.page(query)
    const included = await from.of(page.rows)
    if (!included.includes(undefined)) return { ...page, included }
    // Somebody changed one of the rows in between.
    return database.snapshot(async trx => {
      const still = await records.page(query, trx)
      return { ...still, included: await from.within(trx, still.rows) }
    })
  }

  async function readPage(query: ListQuery) {
    if (query.include && includes !== undefined) return pageWithIncludes(query, includes)
    return { ...(await records.page(query)), included: [] }
  }

  async function find(id: number, include: boolean): Promise<string | undefined> {
    if (include && includes !== undefined) {
      const complete = await lookups.findComplete(id)
      return complete && recordText(resource, complete.row, complete.included)
    }
    const row = await lookups.find(id)
    return row && recordText(resource, row)
  }

  async function createBatch(entries: readonly unknown[]): Promise<Outcome[]> {
    const checked = entries.map(entry => (isObject(entry) ? checkBody(resource, entry, 'create') : undefined))
    const good = checked.flatMap(entry => (entry?.faults.length === 0 ? [entry.values] : []))
    const rows = (await writes.createAll(good)).values()
    return checked.map((entry): Outcome => {
      if (entry === undefined) return failed(notAnObject('an entry'))
      const [fault, ...faults] = entry.faults
      if (fault !== undefined) return failed(ApiError.of([fault, ...faults]), entry.values)
      const row = rows.next().value
      return row === undefined
        ? failed(exists(), entry.values)
        : { text: recordText(resource, row), result: 'created' }
    })
  }

  async function store(id: number, values: Values): Promise<Row> {
    const changed =
      Object.keys(values).length === 0 ? await lookups.find(id) : await writes.update(id, values)
    if (changed === undefined) throw notFound(resource, id)
    if (changed === 'exists') throw exists()
    return changed
  }

  const change =
    (mode: 'replace' | 'patch'): Handler =>
    async ctx => {
      const id = pathId(resource, ctx.params.id)
      parseNoQuery(ctx.querystring)
      const { values, faults } = checkBody(resource, await objectBody(ctx, readBody), mode, id)
      refuse(faults)
      answer(ctx, recordText(resource, await store(id, values)))
    }

  const list: Handler = async ctx => {
    const query = parseListQuery(resource, ctx.querystring, limits)
    assertAcceptsJson(ctx)
    const { rows, total, included } = await readPage(query)
    const texts = rows.map((row, at) => recordText(resource, row, included[at]))
    answer(ctx, collectionText(plural, texts, listMeta(ctx.path, query, texts.length, total)))
  }

  const get: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    const { include } = parseRecordQuery(resource, ctx.querystring)
    assertAcceptsJson(ctx)
    const text = await find(id, include)
    if (text === undefined) throw notFound(resource, id)
    answer(ctx, text)
  }

  const create: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const body = await objectBody(ctx, readBody)
    const entries = entriesOf(body, plural, limits.batchEntries)
    if (entries !== undefined) return answer(ctx, batchText(plural, await createBatch(entries)))
    const { values, faults } = checkBody(resource, body, 'create')
    refuse(faults)
    const row = await writes.create(values)
    if (row === undefined) throw exists()
    ctx.set('Location', `/v1/${plural}/${row.id}`)
    answer(ctx, recordText(resource, row))
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    parseNoQuery(ctx.querystring)
    assertAcceptsJson(ctx)
    if (!(await writes.remove(id))) throw notFound(resource, id)
    answer(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  return { list, get, create, remove, replace: change('replace'), patch: change('patch') }
}
