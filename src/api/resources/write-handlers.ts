// The handlers that create, change and delete records. They check for faults in this order: path, parameters,
// conditions, body, Idempotency-Key, existence.
import { Faults } from '../../core/api-error.ts'
import type { Origin } from '../../database/changes.ts'
import type { Outcome, Refusal, Result, Stored } from '../../database/lane/outcome.ts'
import type { Writer } from '../../database/lane/writer.ts'
import type { RecordLoader } from '../../database/reading/record-loader.ts'
import type { Precondition } from '../../database/version.ts'
import type { Delete } from '../../database/writing/delete.ts'
import { createInsert } from '../../database/writing/insert.ts'
import type { Update } from '../../database/writing/update.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Values } from '../../model/row.ts'
import { collectionCondition } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { checkBody, type JsonObject } from '../requests/validation.ts'
import { assertAcceptsJson, respond, setEtag } from '../respond.ts'
import type { Handler } from '../router.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { objectBody, originOf, pathId, refused, type Services } from './handler.ts'
import { postWork } from './post-work.ts'

/** The writers of the handlers of one record and of those of many. */
export interface RecordWriters {
  readonly update: Writer<Update>
  readonly deleteRecords: Delete
}

export function createWriteHandlers(
  resource: Resource,
  loader: RecordLoader,
  { update, deleteRecords }: RecordWriters,
  services: Services,
) {
  const { limits, database, readBody, withIdempotency } = services
  const insert = createInsert(database, resource)
  const { singular, plural } = resource
  const etags = createEtags(resource)

  const writing = (origin: Origin) => ({
    check: (record: JsonObject, faults: Faults) => checkBody(resource, record, 'create', faults),
    writer: insert,
    itemOf: (entries: readonly Values[]) => ({ origin, entries }),
    outcomeOf: (written: Outcome) =>
      typeof written === 'string'
        ? refused(resource, written)
        : { text: recordText(resource, written.row), result: 'created' as const },
    refused: (refusal: Refusal) => refused(resource, refusal),
    headersOf: ({ row }: Stored) => ({ location: `/v1/${plural}/${row.id}`, etag: etags.record(row) }),
  })

  /** Returns the outcome of a write of one record. @throws ApiError */
  function storedOf(id: number, result: Result | undefined): Stored {
    const outcome = typeof result === 'object' ? result[0] : result
    if (typeof outcome === 'object') return outcome
    throw refused(resource, outcome ?? 'not_found', id)
  }

  /** Updates a record. An empty change returns it as it is. @throws ApiError */
  async function store(id: number, values: Values, precondition: Precondition | undefined, origin: Origin) {
    if (Object.keys(values).length > 0)
      return storedOf(id, await update.write({ origin, patches: [{ id, values, precondition }] })).row
    const row = await loader(id)
    if (row === undefined) throw refused(resource, 'not_found', id)
    if (precondition?.(row.version) === false) throw refused(resource, 'precondition_failed', id)
    return row
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
      const row = await store(id, values, precondition, originOf(ctx))
      setEtag(ctx, etags.record(row))
      respond(ctx, recordText(resource, row))
    }

  const create: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const assertCondition = collectionCondition(ctx.req.headers)
    const work = postWork(
      await objectBody(ctx, readBody),
      plural,
      limits.batchEntries,
      writing(originOf(ctx)),
    )
    assertCondition()
    await withIdempotency(ctx, work)
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    storedOf(id, await deleteRecords({ origin: originOf(ctx), ids: [id], precondition }))
    respond(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  return { create, replace: change('replace'), patch: change('patch'), remove }
}
