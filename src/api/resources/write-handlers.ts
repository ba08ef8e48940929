// The handlers that create, change and delete records. They check for faults in this order: path, parameters, headers,
// body, existence.
import { Faults } from '../../core/api-error.ts'
import type { RecordLoader } from '../../database/reading/record-loader.ts'
import type { Transaction } from '../../database/transaction.ts'
import type { Precondition } from '../../database/version.ts'
import { createDelete } from '../../database/writing/delete.ts'
import { createInserts } from '../../database/writing/insert.ts'
import { createUpdate } from '../../database/writing/update.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import { exists, notFound, preconditionFailed, versionMismatch } from '../errors.ts'
import { writeCondition } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { checkBody, type JsonObject } from '../requests/validation.ts'
import { assertAcceptsJson, respond, setEtag } from '../respond.ts'
import type { Handler } from '../router.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { objectBody, pathId, type Shared } from './handler.ts'
import { postWork } from './post-work.ts'

export function createWriteHandlers(resource: Resource, loader: RecordLoader, shared: Shared) {
  const { resources, limits, database, counts, readBody, withIdempotency } = shared
  const inserts = createInserts(database, counts, resource)
  const update = createUpdate(database, resource)
  const deleteRecord = createDelete(database, counts, resource, resources)
  const { singular, plural } = resource
  const etags = createEtags(resource)

  const writing = {
    check: (record: JsonObject, faults: Faults) => checkBody(resource, record, 'create', faults),
    async write(records: readonly Values[], trx?: Transaction) {
      const [first] = records
      if (first === undefined || records.length > 1) return inserts.insertMany(records, trx)
      return [await inserts.insertOne(first, trx)]
    },
    outcomeOf: (row: Row | undefined) =>
      row === undefined ? exists(resource) : { text: recordText(resource, row), result: 'created' as const },
    headersOf: (row: Row | undefined) =>
      row && { location: `/v1/${plural}/${row.id}`, etag: etags.record(row) },
  }

  /** Updates a record. An empty change returns it as it is. */
  async function store(id: number, values: Values, precondition?: Precondition) {
    if (Object.keys(values).length > 0) return update(id, values, precondition)
    const row = await loader(id)
    return row !== undefined && precondition?.(row.version) === false ? 'changed' : row
  }

  const change =
    (mode: 'replace' | 'patch'): Handler =>
    async ctx => {
      const id = pathId(resource, ctx.params)
      parseNoQuery(ctx.querystring)
      const precondition = preconditionOf(ctx.req.headers)
      const faults = new Faults()
      const values = checkBody(resource, await objectBody(ctx, readBody), mode, faults, id)
      faults.throw()
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
    const work = postWork(await objectBody(ctx, readBody), plural, limits.batchEntries, writing)
    // The collection exists, but has no ETag of its own: `*` matches, any other tag does not.
    if (condition?.(() => false) === false) throw preconditionFailed('the collection')
    await withIdempotency(ctx, work)
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    const removed = await deleteRecord(id, precondition)
    if (removed === undefined) throw notFound(resource, id)
    if (removed === 'changed') throw versionMismatch(resource, id)
    respond(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  return { create, replace: change('replace'), patch: change('patch'), remove }
}
