// What the handlers that read a resource do: the operations of the document under their names.
import type { Config } from '../../config/config.ts'
import type { Resource } from '../../model/resource.ts'
import { parseListQuery, parseRecordQuery, unpagedRecords } from '../requests/query.ts'
import { notFound } from '../resources/handler.ts'
import * as examples from './examples.ts'
import { queryFailures } from './failures.ts'
import { capital, ref } from './json-schema.ts'
import { idParameter, ifNoneMatch, includeParameters, listParameters } from './parameters.ts'
import { failures, json, type Operation, read } from './responses.ts'

export function describeReads(resource: Resource, limits: Config['limits']) {
  const { singular, plural, relation } = resource
  const type = capital(singular)
  const tags = [capital(plural)] as const
  const page = examples.page(resource, `/v1/${plural}`, unpagedRecords(limits))
  const tooMany = `records_per_page=${limits.recordsPerPage + 1}`
  const parseList = (search: string) => parseListQuery(resource, search, limits)
  const parseRecord = (search: string) => parseRecordQuery(resource, search)

  const list: Operation = {
    operationId: `list${capital(plural)}`,
    tags,
    summary: `List ${plural}`,
    description: `Filters combine with AND, a repeated one too; there can be ${limits.filters}. Ordered by ascending id, unless \`sort\` says otherwise.`,
    parameters: [...listParameters(resource, limits), ifNoneMatch],
    responses: {
      ...read(`A page of ${plural}.`, json(ref(`${type}Page`), { 'A page': page })),
      ...failures(queryFailures(parseList, 'id=abc', tooMany)),
    },
  }

  const get: Operation = {
    operationId: `get${type}`,
    tags,
    summary: `Get one ${singular}`,
    parameters: [idParameter('id', resource), ...includeParameters(resource), ifNoneMatch],
    responses: {
      ...read(
        `The ${singular}.`,
        json(ref(type), {
          [`One ${singular}`]: examples.record(resource),
          ...(relation && { [`With its ${relation.name}`]: examples.record(resource, relation) }),
        }),
      ),
      ...failures([...queryFailures(parseRecord, 'include=all'), notFound(resource, 7)]),
    },
  }

  return { list, get }
}
