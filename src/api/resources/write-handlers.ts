// The handlers that create, change and delete records. They check for faults in this order: path, parameters, headers,
// body, existence.
import { ApiError, throwFaults } from '../../core/api-error.ts'
import type { RecordLoader } from '../../database/reading/record-loader.ts'
import type { Transaction } from '../../database/transaction.ts'
import type { Precondition } from '../../database/version.ts'
import type { Delete } from '../../database/writing/delete.ts'
import type { Inserts } from '../../database/writing/insert.ts'
import type { Update } from '../../database/writing/update.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import { batchText, entriesOf, failed, faultyEntry, notAnObject, type Outcome } from '../requests/batch.ts'
import type { ReadBody } from '../requests/body.ts'
import { preconditionFailed, writeCondition } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { type Checked, checkBody, isObject, type JsonObject } from '../requests/validation.ts'
import { assertAcceptsJson, respond, setEtag } from '../respond.ts'
import { createEtags, preconditionOf } from './etags.ts'
import { type Handler, notFound, objectBody, pathId } from './handler.ts'
import type { PostResult, WithIdempotency } from './with-idempotency.ts'

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
  const exists = () => new ApiError(`${singular}_exists`, `${singular} already exists`)
  const versionMismatch = (id: number) => preconditionFailed(`the ${singular} with id ${id}`)

  async function createOne(values: Values, trx?: Transaction): Promise<PostResult> {
    const row = await inserts.insertOne(values, trx)
    if (row === undefined) throw exists()
    const text = recordText(resource, row)
    return { text, location: `/v1/${plural}/${row.id}`, etag: etags.record(row) }
  }

  /** @param checked the entries; undefined for an entry that is not an object */
  async function createBatch(
    checked: readonly (Checked | undefined)[],
    valid: readonly Values[],
    trx?: Transaction,
  ): Promise<PostResult> {
    const rows = (await inserts.insertMany(valid, trx)).values()
    const outcomes = checked.map((entry): Outcome => {
      if (entry === undefined) return failed(notAnObject('an entry'))
      const [fault, ...faults] = entry.faults
      if (fault !== undefined) return failed(faultyEntry([fault, ...faults]), entry.values)
      const row = rows.next().value
      return row === undefined
        ? failed(exists(), entry.values)
        : { text: recordText(resource, row), result: 'created' }
    })
    return { text: batchText(plural, outcomes) }
  }

  /** Handles an empty change: returns the record unchanged. */
  async function readUnchanged(
    id: number,
    precondition?: Precondition,
  ): Promise<Row | 'changed' | undefined> {
    const row = await loader.find(id)
    return row !== undefined && precondition?.(row.version) === false ? 'changed' : row
  }

  async function store(id: number, values: Values, precondition?: Precondition): Promise<Row> {
    const changed =
      Object.keys(values).length === 0
        ? await readUnchanged(id, precondition)
        : await update(id, values, precondition)
    if (changed === undefined) throw notFound(resource, id)
    if (changed === 'changed') throw versionMismatch(id)
    if (changed === 'exists') throw exists()
    return changed
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
      setEtag(ctx, etags.record(row))
      respond(ctx, recordText(resource, row))
    }

  /** Returns the write that a body asks for. @throws ApiError with all faults of the body */
  function writeFor(body: JsonObject): {
    work: (trx?: Transaction) => Promise<PostResult>
    canWrite: boolean
  } {
    const entries = entriesOf(body, plural, limits.batchEntries)
    if (entries === undefined) {
      const { values, faults } = checkBody(resource, body, 'create')
      throwFaults(faults)
      return { work: trx => createOne(values, trx), canWrite: true }
    }
    const checked = entries.map(entry => (isObject(entry) ? checkBody(resource, entry, 'create') : undefined))
    const valid = checked.flatMap(entry => (entry?.faults.length === 0 ? [entry.values] : []))
    return { work: trx => createBatch(checked, valid, trx), canWrite: valid.length > 0 }
  }

  const create: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const condition = writeCondition(ctx.req.headers)
    const { work, canWrite } = writeFor(await objectBody(ctx, readBody))
    // The collection exists, but has no ETag of its own: `*` matches, any other tag does not.
    if (condition?.(() => false) === false) throw preconditionFailed('the collection')
    await withIdempotency(ctx, work, canWrite)
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    const removed = await dependencies.remove(id, precondition)
    if (removed === undefined) throw notFound(resource, id)
    if (removed === 'changed') throw versionMismatch(id)
    respond(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  return { create, replace: change('replace'), patch: change('patch'), remove }
}
