// Parses the parameters of the change feed.
import type { Config } from '../../config/config.ts'
import { quoted } from '../../core/quoted.ts'
import type { FeedEvent } from '../../database/feed/events.ts'
import { changeTypes, idName, MAX_ID, parseId, type Resource } from '../../model/resource.ts'
import { notAnId, Parameters } from '../requests/parameters.ts'
import { defaultRecordsPerPage } from '../requests/query.ts'

/** The longest time that a request waits for an event, in seconds. */
export const MAX_WAIT_S = 60

/** An id of an event, or 0, in the header `Last-Event-ID`. */
export const lastEventIdPattern = /^(0|[1-9][0-9]{0,15})$/

export interface ChangesQuery {
  /** Undefined: the oldest event that is kept. */
  readonly after: number | 'latest' | undefined
  readonly recordsPerPage: number
  /** 0: the request does not wait. */
  readonly waitSeconds: number
  /** Undefined: every event is selected. */
  readonly selects: ((event: FeedEvent) => boolean) | undefined
  /** The parameters that the link to the next page repeats, as they are in a URI, each followed by `&`. */
  readonly others: string
}

/** @throws ApiError with all faults */
export function parseChangesQuery(
  resources: readonly Resource[],
  queryString: string,
  limits: Config['limits'],
): ChangesQuery {
  const types = changeTypes(resources)
  const idNames = resources.map(idName)
  const once = ['after', ...idNames, 'wait', 'records_per_page']
  const parameters = new Parameters(queryString, ['type'], once)

  const lists = parameters.pairs.filter(({ name }) => name === 'type').map(({ value }) => value.split(','))
  const selected = new Set(lists.flat())
  for (const type of selected)
    if (!types.includes(type))
      parameters.fault('type', `${quoted(type)} is unknown; allowed: ${types.join(', ')}`)

  const ids = new Map<string, number>()
  for (const name of idNames) {
    const value = parameters.get(name)
    if (value === undefined) continue
    const id = parseId(value)
    if (id === undefined) parameters.fault(name, notAnId(value))
    else ids.set(name, id)
  }

  const sent = parameters.get('after')
  const query: ChangesQuery = {
    after:
      sent === undefined || sent === 'latest' ? sent : parameters.integer('after', 0, MAX_ID, 0, 'latest'),
    recordsPerPage: parameters.integer(
      'records_per_page',
      1,
      limits.recordsPerPage,
      defaultRecordsPerPage(limits),
    ),
    waitSeconds: parameters.integer('wait', 1, MAX_WAIT_S, 0),
    selects:
      selected.size + ids.size === 0
        ? undefined
        : ({ type, ids: own }: FeedEvent) =>
            (selected.size === 0 || selected.has(type)) && [...ids].every(([name, id]) => own[name] === id),
    others: parameters.others(['after', 'records_per_page']),
  }
  parameters.faults.throw()
  return query
}
