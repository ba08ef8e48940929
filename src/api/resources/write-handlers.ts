// The handlers that create, change and delete records: one, or several with one request. They check for faults in this order:
// path, parameters, conditions, body, Idempotency-Key, existence.
import { Faults } from '../../core/api-error.ts'
import type { JsonObject } from '../../core/json-object.ts'
import type { Origin } from '../../database/changes.ts'
import type { Outcome, Refusal, Result, Stored } from '../../database/lane/outcome.ts'
import { createDelete } from '../../database/writing/delete.ts'
import { createInsert } from '../../database/writing/insert.ts'
import { createUpdate } from '../../database/writing/update.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Values } from '../../model/row.ts'
import { invalidBatch } from '../errors.ts'
import { batchText, checkEntries, deleted, entriesOf, failed } from '../requests/batch.ts'
import { parseNoQuery } from '../requests/parameters.ts'
import { collectionCondition } from '../requests/preconditions.ts'
import { parseIdsQuery } from '../requests/query.ts'
import { checkBody, checkChange } from '../requests/validation.ts'
import { assertAcceptsJson, respond, setEtag } from '../respond.ts'
import type { Handler } from '../router.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { originOf, pathId, refused, type Services } from './handler-parts.ts'
import { postWork } from './post-work.ts'
import { respondOnce } from './with-idempotency.ts'

export function createWriteHandlers(resource: Resource, services: Services) {
  const { resources, limits, database, idempotencyKeys, readBody } = services
  const insert = createInsert(database, resource)
  const update = createUpdate(database, resource)
  const deleteRecords = createDelete(database, resource, resources)
  const { singular, plural } = resource
  const etags = createEtags(resource)

  const writing = (origin: Origin) => ({
    check: (record: JsonObject, faults: Faults) => checkBody(resource, record, 'create', faults),
    writer: insert,
    itemOf: (entries: readonly Values[]) => ({ origin, entries }),
    responseTo: (outcome: Outcome) =>
      typeof outcome === 'string'
        ? refused(resource, outcome)
        : { text: recordText(resource, outcome.row), result: 'created' as const },
    refused: (refusal: Refusal) => refused(resource, refusal),
    headersOf: ({ row }: Stored) => ({ location: `/v1/${plural}/${row.id}`, etag: etags.record(row) }),
  })

  /** Returns the outcome of a write of one record. @throws ApiError */
  function storedOf(id: number, result: Result): Stored {
    const outcome = typeof result === 'object' ? result[0] : result
    if (typeof outcome === 'object') return outcome
    throw refused(resource, outcome ?? 'not_found', id)
  }

  const change =
    (mode: 'replace' | 'patch'): Handler =>
    async ctx => {
      const id = pathId(resource, ctx.params)
      parseNoQuery(ctx.querystring)
      const precondition = preconditionOf(ctx.req.headers)
      const faults = new Faults()
      const values = checkBody(resource, await readBody(ctx), mode, faults, id)
      faults.throw()
      const patches = [{ id, values, precondition }]
      const { row } = storedOf(id, await update.write({ origin: originOf(ctx), patches }))
      setEtag(ctx, etags.record(row))
      respond(ctx, recordText(resource, row))
    }

  const create: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const assertCondition = collectionCondition(ctx.req.headers)
    const work = postWork(await readBody(ctx), plural, limits.batchEntries, writing(originOf(ctx)))
    assertCondition()
    await respondOnce(ctx, idempotencyKeys, work)
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    storedOf(id, await deleteRecords({ origin: originOf(ctx), ids: [id], precondition }))
    respond(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  /** A function of its own: a body that a handler refers to would be in memory as long as the write waits. */
  function checkChanges(body: JsonObject) {
    const list = entriesOf(body, plural, limits.batchEntries)
    if (list === undefined) throw invalidBatch(plural)
    return checkEntries(
      list,
      (entry, faults) => checkChange(resource, entry, faults),
      ({ id }) => ({ id }),
    )
  }

  const patchMany: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const assertCondition = collectionCondition(ctx.req.headers)
    const entries = checkChanges(await readBody(ctx))
    assertCondition()
    const patches = entries.valid.flatMap(({ id, values }) => (id === undefined ? [] : [{ id, values }]))
    const result = await update.write({ origin: originOf(ctx), patches })
    if (typeof result === 'string') throw refused(resource, result)
    const responses = entries.responses(result, (outcome, { id }) => {
      if (typeof outcome === 'string') return refused(resource, outcome, id)
      return { text: recordText(resource, outcome.row), result: 'updated' }
    })
    respond(ctx, batchText(plural, responses, 'updated'))
  }

  const removeMany: Handler = async ctx => {
    const ids = parseIdsQuery(ctx.querystring, limits.batchEntries)
    const assertCondition = collectionCondition(ctx.req.headers)
    assertAcceptsJson(ctx)
    assertCondition()
    const outcomes = await deleteRecords({ origin: originOf(ctx), ids })
    const responses = ids.map((id, index) => {
      const outcome = outcomes[index] ?? 'not_found'
      if (typeof outcome === 'string') return failed(refused(resource, outcome, id), { id })
      return deleted(id, `${singular} ${id} deleted`)
    })
    respond(ctx, batchText(plural, responses, 'deleted'))
  }

  return { create, replace: change('replace'), patch: change('patch'), patchMany, remove, removeMany }
}
