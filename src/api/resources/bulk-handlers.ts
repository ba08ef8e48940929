// The handlers that change and delete many records of a collection with one request.

import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import { invalidBatch } from '../errors.ts'
import { batchText, checkEntries, deleted, entriesOf, failed } from '../requests/batch.ts'
import { parseIdsQuery } from '../requests/ids-query.ts'
import { collectionCondition } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { checkChange } from '../requests/validation.ts'
import { assertAcceptsJson, respond } from '../respond.ts'
import type { Handler } from '../router.ts'
import { objectBody, originOf, refused, type Services } from './handler.ts'
import type { RecordWriters } from './write-handlers.ts'

export function createBulkHandlers(
  resource: Resource,
  { update, deleteRecords }: RecordWriters,
  { limits, readBody }: Services,
) {
  const { singular, plural } = resource

  const patch: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const assertCondition = collectionCondition(ctx.req.headers)
    const body = await objectBody(ctx, readBody)
    const list = entriesOf(body, plural, limits.batchEntries)
    if (list === undefined) throw invalidBatch(plural)
    const entries = checkEntries(
      list,
      (entry, faults) => checkChange(resource, entry, faults),
      ({ id }) => (id === undefined ? {} : { id }),
    )
    assertCondition()
    const patches = entries.valid.flatMap(({ id, values }) => (id === undefined ? [] : [{ id, values }]))
    const result = await update.write({ origin: originOf(ctx), patches })
    if (typeof result === 'string') throw refused(resource, result)
    const outcomes = entries.outcomes(({ id }, index) => {
      const written = result[index] ?? 'not_found'
      if (typeof written === 'string') return refused(resource, written, id)
      return { text: recordText(resource, written.row), result: 'updated' }
    })
    respond(ctx, batchText(plural, outcomes, 'updated'))
  }

  const remove: Handler = async ctx => {
    const ids = parseIdsQuery(ctx.querystring, limits.batchEntries)
    const assertCondition = collectionCondition(ctx.req.headers)
    assertAcceptsJson(ctx)
    assertCondition()
    const result = await deleteRecords({ origin: originOf(ctx), ids })
    const outcomes = ids.map((id, index) => {
      const outcome = result[index] ?? 'not_found'
      if (typeof outcome === 'string') return failed(refused(resource, outcome, id), { id })
      return deleted(id, `${singular} ${id} deleted`)
    })
    respond(ctx, batchText(plural, outcomes, 'deleted'))
  }

  return { patch, remove }
}
