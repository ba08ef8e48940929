// Describes the change feed.
import type { Config } from '../../config/config.ts'
import { changeTypes, idName, MAX_ID, type Resource } from '../../model/resource.ts'
import { changesExpired } from '../errors.ts'
import { queryFailures } from '../openapi/examples.ts'
import { idSchema, integer, ref, type Schema, text } from '../openapi/json-schema.ts'
import { describe, json } from '../openapi/operation.ts'
import { inHeader, inQuery, namesInQuery } from '../openapi/parameters.ts'
import { defaultRecordsPerPage } from '../requests/query.ts'
import { lastEventIdPattern, MAX_WAIT_S, parseChangesQuery } from './changes-query.ts'

const description = `Every change of a record or a membership is an event of one feed. All readers get the same events in the same order, and each event once. The ids of the events are consecutive. An event names the record and not its values: read those with \`GET /v1/users?id[in]=…\`.

The end of a record ends its memberships, which have no events of their own. A write that changes nothing has no event.

A page without events is the end of the feed for now, or it contains events that were not selected. \`next\` continues in both cases. With \`wait\`, the request waits for an event.

With \`Accept: text/event-stream\` or \`Last-Event-ID\`, the response is a stream of server-sent events: \`id\`, \`event\` with the type, and \`data\` with the event as JSON. It ignores \`wait\` and \`records_per_page\`.

The service keeps events for a limited time. If it no longer has the events after a position, the response is 410. Then ask for \`after=latest\`, copy the collections, and continue with the \`next\` link that you asked for first.`

export function describeChanges(resources: readonly Resource[], limits: Config['limits']) {
  const types = changeTypes(resources)
  const [first] = resources
  const event = {
    id: 42,
    type: types[0],
    ...(first && { [idName(first)]: 7 }),
    at: '2026-11-22T17:00:00.123Z',
    by: null,
    request_id: '5c9a1c5e-0b8f-4f0e-9d0a-6e1f5c6f2a11',
  }
  const next = `/v1/changes?after=42&records_per_page=${defaultRecordsPerPage(limits)}`
  const page = { changes: [event], meta: { status: 200, message: '1 change', links: { next } } }
  const position: Schema = {
    anyOf: [integer(0, MAX_ID), { type: 'string', pattern: '^(latest|0|[1-9][0-9]{0,15})$' }],
  }
  const stream = `retry: 3000\nid: 41\n\nid: 42\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

  return describe('get', '/v1/changes', {
    operationId: 'listChanges',
    summary: 'List or stream changes',
    description,
    parameters: [
      inQuery(
        'after',
        'The position after which the page begins: the id of an event, or `latest`, the end of the feed. Without it, the page begins with the oldest event that is kept.',
        { ...position, examples: [41, 'latest'] },
      ),
      inQuery(
        'records_per_page',
        `The maximum number of events in the page. The default is ${defaultRecordsPerPage(limits)}.`,
        {
          ...integer(1, limits.recordsPerPage),
          default: defaultRecordsPerPage(limits),
        },
      ),
      namesInQuery('type', 'Selects events of these types.', types, types.slice(0, 1)),
      ...resources.map(resource =>
        inQuery(idName(resource), `Selects events of this ${resource.singular}.`, {
          ...idSchema,
          examples: [7],
        }),
      ),
      inQuery(
        'wait',
        'For how many seconds the request may look for an event if there is none: it reads to the end of the feed, and then waits. A port that drains answers at once.',
        {
          ...integer(1, MAX_WAIT_S),
          examples: [30],
        },
      ),
      inHeader('Last-Event-ID', 'The `id` that a stream has sent last. It goes before `after`.', {
        type: 'string',
        pattern: lastEventIdPattern.source,
        examples: ['41'],
      }),
    ],
    invalidQuery: queryFailures(
      queryString => parseChangesQuery(resources, queryString, limits),
      'after=x',
      `records_per_page=${limits.recordsPerPage + 1}`,
    ),
    success: [
      'A page of events, or a stream.',
      {
        ...json(ref('ChangePage'), { 'A page': page }),
        ...json(text, { 'A stream': stream }, ['text/event-stream']),
      },
    ],
    failures: [changesExpired(41)],
  })
}
