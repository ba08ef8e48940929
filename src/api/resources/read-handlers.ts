// The handlers that read one record or a page. They check for faults in this order: path, parameters, Accept, existence.
import type { Context } from 'koa'
import type { IncludeSet } from '../../database/reading/include-sets.ts'
import type { Included } from '../../database/reading/includes.ts'
import type { Filter } from '../../database/reading/page-query.ts'
import { isBounded } from '../../database/reading/page-seek.ts'
import { createRecordLoader } from '../../database/reading/record-loader.ts'
import { createRecords, type Page, type Records } from '../../database/reading/records.ts'
import type { Statements } from '../../database/transaction.ts'
import { collectionText, recordText } from '../../model/representation.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import { notFound, pageTooLarge } from '../errors.ts'
import { toShared, turnFor } from '../large-texts.ts'
import { pageMeta } from '../page-meta.ts'
import { createListParser, type ListQuery, parseRecordQuery } from '../requests/query.ts'
import { assertAcceptsJson, respondRead } from '../respond.ts'
import type { Handler } from '../router.ts'
import { createEtags } from './etags.ts'
import { pathId, type Services } from './handler-parts.ts'
import { shareConcurrent } from './share-concurrent.ts'

/** Number of records with includes up to which a page does not count as large. */
const MAX_SMALL_PAGE = 100

/** A page whose records have the texts of their includes, if it has includes. */
interface CompletePage {
  readonly total: number
  readonly records: readonly { readonly row: Row; readonly text?: string }[]
}

const hasIncludes = ({ include }: ListQuery): boolean => include.length > 0

export function createReadHandlers(
  resource: Resource,
  records: Records,
  includeSet: (names: readonly string[]) => IncludeSet,
  { limits, database, inLargePageSlot }: Services,
) {
  const etags = createEtags(resource)
  const loader = createRecordLoader(records)
  const parse = createListParser(resource, limits)

  /** Throws as soon as the texts of a page have more bytes than a response may have. @throws ApiError `limit_exceeded` */
  function createSizeCheck(include: boolean) {
    let bytes = 0
    return (text: string): void => {
      bytes += Buffer.byteLength(text)
      if (bytes <= limits.responseBytes) return
      throw pageTooLarge(limits.responseBytes, include ? 'lower it, or leave out include' : 'lower it')
    }
  }

  /** Reads a page, in its turn if it can be slow. @param act reads it in a snapshot */
  const inTurn = <T>(
    query: ListQuery,
    act: (on: Statements) => Promise<T>,
    page = () => database.snapshot(act),
  ) => (isBounded(resource, query) ? page() : database.inPageTurn(page, act))

  /** Returns the records of a page with the includes that the request names, both of one moment. */
  async function complete(query: ListQuery, page: Page): Promise<CompletePage> {
    if (!hasIncludes(query)) return { total: page.total, records: page.rows.map(row => ({ row })) }
    const { includes } = includeSet(query.include)
    const include = async ({ total, rows }: Page, on?: Statements) => {
      const included = await includes(rows, createSizeCheck(true), on)
      return { total, records: included.flatMap(one => one ?? []) }
    }
    const read = await include(page)
    const [first] = page.rows
    const isUnchanged = ({ row }: Included) => row.generation === first?.generation
    if (read.records.length === page.rows.length && read.records.every(isUnchanged)) return read
    // A record has changed between the two reads: a snapshot reads both again.
    return inTurn(query, async trx => include(await records.page(query, trx), trx))
  }

  /** Returns the text of a page, and its ETag. @throws ApiError `limit_exceeded` */
  function responseOf(path: string, query: ListQuery, { total, records }: CompletePage) {
    const texts = records.map(({ row, text }) => recordText(resource, row, text))
    const text = collectionText(resource.plural, texts, pageMeta(path, query, texts.length, total))
    createSizeCheck(hasIncludes(query))(text)
    const rows = records.map(({ row }) => row)
    return { etag: etags.page(total, query.recordsPerPage, rows, hasIncludes(query)), text: toShared(text) }
  }

  const share = shareConcurrent<{ readonly etag: string; readonly text: string | Buffer }>()

  /**
   * Responds with a page. Concurrent requests for the same page share one read of it.
   * @param filters in addition to those of the request
   * @param onEmpty is called if no record matches
   */
  async function respondPage(ctx: Context, filters: readonly Filter[], onEmpty?: () => Promise<void>) {
    const { path, querystring } = ctx
    const sent = parse(querystring)
    const query = { ...sent, filters: [...filters, ...sent.filters] }
    assertAcceptsJson(ctx)
    const { etag, text } = await share(`${path}?${querystring}`, async () => {
      const page = await inTurn(
        query,
        on => records.page(query, on),
        () => records.page(query),
      )
      if (page.total === 0) await onEmpty?.()
      const make = async () => responseOf(path, query, await complete(query, page))
      return hasIncludes(query) && page.rows.length > MAX_SMALL_PAGE ? inLargePageSlot(make) : make()
    })
    await turnFor(text)
    respondRead(ctx, etag, text)
  }

  const list: Handler = ctx => respondPage(ctx, [])

  /**
   * Returns the handler that lists the records with a membership of one related record. The page is that of the
   * collection with a filter for the related id.
   */
  function listMembers(relation: Relation): Handler {
    const relatedLoader = createRecordLoader(createRecords(database, relation.to))
    return async ctx => {
      const id = pathId(relation.to, ctx.params)
      const isMember = { relation, column: 'id', comparison: { operator: 'equals', value: id } } as const
      await respondPage(ctx, [isMember], async () => {
        // A related record with members exists. One that is created after the page was read was empty in between.
        if ((await relatedLoader(id)) === undefined) throw notFound(relation.to, id)
      })
    }
  }

  const get: Handler = async ctx => {
    const id = pathId(resource, ctx.params)
    const { include } = parseRecordQuery(resource, ctx.querystring)
    assertAcceptsJson(ctx)
    if (include.length > 0) {
      const complete = await includeSet(include).findComplete(id)
      if (complete === undefined) throw notFound(resource, id)
      const { row, text } = complete
      await turnFor(text)
      respondRead(ctx, etags.complete(row), recordText(resource, row, text))
    } else {
      const row = await loader(id)
      if (row === undefined) throw notFound(resource, id)
      respondRead(ctx, etags.record(row), recordText(resource, row))
    }
  }

  return { list, listMembers, get }
}
