// The handlers that create, change and delete records. They check for faults in this order: path, parameters, headers,
// body, existence.
import { throwFaults } from '../../core/api-error.ts'
import type { RecordLoader } from '../../database/reading/record-loader.ts'
import type { Transaction } from '../../database/transaction.ts'
import type { Precondition } from '../../database/version.ts'
import type { Delete } from '../../database/writing/delete.ts'
import type { Inserts } from '../../database/writing/insert.ts'
import type { Update } from '../../database/writing/update.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Values } from '../../model/row.ts'
import type { ReadBody } from '../requests/body.ts'
import { preconditionFailed, writeCondition } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { checkBody, type JsonObject } from '../requests/validation.ts'
import { assertAcceptsJson, respond, setEtag } from '../respond.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { exists, type Handler, notFound, objectBody, pathId, versionMismatch } from './handler.ts'
import { postWork, type Written } from './post-work.ts'
import type { WithIdempotency } from './with-idempotency.ts'

export interface WriteDependencies {
  readonly resource: Resource
  readonly loader: RecordLoader
  readonly inserts: Inserts
  readonly update: Update
  readonly remove: Delete
  readonly readBody: ReadBody
  readonly withIdempotency: WithIdempotency
  readonly limits: { readonly batchEntries: number }
}

export function createWriteHandlers(dependencies: WriteDependencies) {
  const { resource, loader, inserts, update, readBody, withIdempotency, limits } = dependencies
  const { singular, plural } = resource
  const etags = createEtags(resource)

  async function insert(records: readonly Values[], trx?: Transaction): Promise<Written[]> {
    const [first, ...others] = records
    const rows =
      first !== undefined && others.length === 0
        ? [await inserts.insertOne(first, trx)]
        : await inserts.insertMany(records, trx)
    return rows.map(row => {
      if (row === undefined) return exists(resource)
      const location = `/v1/${plural}/${row.id}`
      return { text: recordText(resource, row), result: 'created', location, etag: etags.record(row) }
    })
  }

  /** Updates a record. An empty change returns it as it is. */
  async function store(id: number, values: Values, precondition?: Precondition) {
    if (Object.keys(values).length > 0) return update(id, values, precondition)
    const row = await loader.find(id)
    return row !== undefined && precondition?.(row.version) === false ? 'changed' : row
  }

  const change =
    (mode: 'replace' | 'patch'): Handler =>
    async ctx => {
      const id = pathId(resource, ctx.params)
      parseNoQuery(ctx.querystring)
      const precondition = preconditionOf(ctx.req.headers)
      const { values, faults } = checkBody(resource, await objectBody(ctx, readBody), mode, id)
      throwFaults(faults)
      const row = await store(id, values, precondition)
      if (row === undefined) throw notFound(resource, id)
      if (row === 'changed') throw versionMismatch(resource, id)
      if (row === 'exists') throw exists(resource)
      setEtag(ctx, etags.record(row))
      respond(ctx, recordText(resource, row))
    }

  const create: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const condition = writeCondition(ctx.req.headers)
    const body = await objectBody(ctx, readBody)
    const check = (record: JsonObject) => checkBody(resource, record, 'create')
    const work = postWork(body, plural, limits.batchEntries, check, insert)
    // The collection exists, but has no ETag of its own: `*` matches, any other tag does not.
    if (condition?.(() => false) === false) throw preconditionFailed('the collection')
    await withIdempotency(ctx, work)
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    const removed = await dependencies.remove(id, precondition)
    if (removed === undefined) throw notFound(resource, id)
    if (removed === 'changed') throw versionMismatch(resource, id)
    respond(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  return { create, replace: change('replace'), patch: change('patch'), remove }
}
