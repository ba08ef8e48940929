// Creating, changing and removing records. Each operation looks for faults in the order of the contract.
import type { Knex } from 'knex'
import { ApiError, refuse } from '../../core/api-error.ts'
import type { Lookups } from '../../database/reading/record-loader.ts'
import type { Precondition } from '../../database/version.ts'
import type { Writes } from '../../database/writing/writes.ts'
import { recordText } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import { batchText, entriesOf, failed, faultyEntry, notAnObject, type Outcome } from '../requests/batch.ts'
import type { ReadBody } from '../requests/body.ts'
import { preconditionFailed, writeCondition } from '../requests/preconditions.ts'
import { parseNoQuery } from '../requests/query.ts'
import { checkBody, isObject, type JsonObject } from '../requests/validation.ts'
import { answer, assertAcceptsJson, setEtag } from '../respond.ts'
import { preconditionOf, recordEtag } from './etags.ts'
import { type Handler, notFound, objectBody, pathId } from './handler.ts'
import type { Done, Once } from './with-idempotency.ts'

export interface WritingDependencies {
  readonly resource: Resource
  readonly lookups: Lookups
  readonly writes: Writes
  readonly readBody: ReadBody
  readonly once: Once
  readonly limits: { readonly batchEntries: number }
}

export function createWriteHandlers(dependencies: WritingDependencies) {
  const { resource, lookups, writes, readBody, once, limits } = dependencies
  const { singular, plural } = resource
  const exists = () => new ApiError(`${singular}_exists`, `${singular} already exists`)
  const changedMeanwhile = (id: number) => preconditionFailed(`the ${singular} with the id ${id}`)

  async function createOne(values: Values, trx?: Knex.Transaction): Promise<Done> {
    const row = await writes.create(values, trx)
    if (row === undefined) throw exists()
    const text = recordText(resource, row)
    return { text, location: `/v1/${plural}/${row.id}`, etag: recordEtag(row) }
  }

  async function createBatch(entries: readonly unknown[], trx?: Knex.Transaction): Promise<Done> {
    const checked = entries.map(entry => (isObject(entry) ? checkBody(resource, entry, 'create') : undefined))
    const good = checked.flatMap(entry => (entry?.faults.length === 0 ? [entry.values] : []))
    const rows = (await writes.createAll(good, trx)).values()
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

  /** A change of nothing: the record as it is. */
  async function keep(id: number, precondition?: Precondition): Promise<Row | 'changed' | undefined> {
    const row = await lookups.find(id)
    return row !== undefined && precondition?.(row.version) === false ? 'changed' : row
  }

  async function store(id: number, values: Values, precondition?: Precondition): Promise<Row> {
    const changed =
      Object.keys(values).length === 0
        ? await keep(id, precondition)
        : await writes.update(id, values, precondition)
    if (changed === undefined) throw notFound(resource, id)
    if (changed === 'changed') throw changedMeanwhile(id)
    if (changed === 'exists') throw exists()
    return changed
  }

  const change =
    (mode: 'replace' | 'patch'): Handler =>
    async ctx => {
      const id = pathId(resource, ctx.params.id)
      parseNoQuery(ctx.querystring)
      const precondition = preconditionOf(ctx.req.headers)
      const { values, faults } = checkBody(resource, await objectBody(ctx, readBody), mode, id)
      refuse(faults)
      const row = await store(id, values, precondition)
      setEtag(ctx, recordEtag(row))
      answer(ctx, recordText(resource, row))
    }

  /** What there is to do for a body. @throws ApiError that names every fault of it */
  function planOf(body: JsonObject): (trx?: Knex.Transaction) => Promise<Done> {
    const entries = entriesOf(body, plural, limits.batchEntries)
    if (entries !== undefined) return trx => createBatch(entries, trx)
    const { values, faults } = checkBody(resource, body, 'create')
    refuse(faults)
    return trx => createOne(values, trx)
  }

  const create: Handler = async ctx => {
    parseNoQuery(ctx.querystring)
    const condition = writeCondition(ctx.req.headers)
    const work = planOf(await objectBody(ctx, readBody))
    // A collection is there, but it has no ETag: only its pages have.
    if (condition?.(() => false) === false) throw preconditionFailed('the collection')
    await once(ctx, work)
  }

  const remove: Handler = async ctx => {
    const id = pathId(resource, ctx.params.id)
    parseNoQuery(ctx.querystring)
    const precondition = preconditionOf(ctx.req.headers)
    assertAcceptsJson(ctx)
    const removed = await writes.remove(id, precondition)
    if (removed === undefined) throw notFound(resource, id)
    if (removed === 'changed') throw changedMeanwhile(id)
    answer(ctx, JSON.stringify({ meta: { status: 200, message: `${singular} ${id} deleted` } }))
  }

  return { create, replace: change('replace'), patch: change('patch'), remove }
}
