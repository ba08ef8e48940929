// Describes the operations on the relation of a resource: list, add and remove memberships.
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { LimitedRelation, Resource } from '../../model/resource.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { parseNoQuery, parsePagingQuery } from '../requests/query.ts'
import { notFound } from '../resources/handler.ts'
import {
  additionsExample,
  batchFailures,
  keyFailures,
  pageExample,
  queryFailures,
  recordExample,
  referenceExample,
  referenceFailures,
  removedExample,
} from './examples.ts'
import { capitalize, oneOf, ref } from './json-schema.ts'
import { idempotencyKey, idParameter, ifMatch, ifNoneMatch, pagingParameters } from './parameters.ts'
import { failures, json, type Operation, read, success } from './responses.ts'

export function describeMemberships(resource: Resource, relation: LimitedRelation, limits: Config['limits']) {
  const { to, name } = relation
  const [one, other] = [resource.singular, to.singular]
  const maxMemberships = relation.maxPerRecord(limits)
  const tags = [capitalize(resource.plural)] as const
  const parameters = [idParameter('id', resource)]
  const missing = notFound(resource, 7)
  const stale = preconditionFailed(`the ${one} with id 1`)
  const invalidQuery = queryFailures(parseNoQuery)

  const parsePaging = (search: string) => parsePagingQuery(search, maxMemberships, limits)
  const tooManyRecords = `records_per_page=${limits.recordsPerPage + 1}`
  const page = pageExample(to, `/v1/${resource.plural}/1/${name}`, maxMemberships)

  const list: Operation = {
    operationId: `list${capitalize(one)}${capitalize(name)}`,
    tags,
    summary: `List the ${name} of a ${one}`,
    description: `Returns the ${name} by ascending id: all of them, or a page if a paging parameter is given. A ${one} can have at most ${maxMemberships} ${name}.`,
    parameters: [...parameters, ...pagingParameters(limits), ifNoneMatch],
    responses: {
      ...read(`The ${name} of the ${one}.`, json(ref(`${capitalize(other)}Page`), { [`All ${name}`]: page })),
      ...failures([...queryFailures(parsePaging, 'start_index=-1', tooManyRecords), missing]),
    },
  }

  const create: Operation = {
    operationId: `add${capitalize(one)}${capitalize(name)}`,
    tags,
    summary: `Add a ${one} to ${name}`,
    description: `Adds the ${one} to one ${other}, or to a batch of up to ${limits.batchEntries} ${name}. If the ${one} is already in a ${other}, adding it again succeeds and changes nothing. Each entry of a batch succeeds or fails independently, as its \`meta\` reports.`,
    parameters: [...parameters, ifMatch, idempotencyKey],
    requestBody: {
      required: true,
      content: json(oneOf(`${capitalize(other)}Reference`, `${capitalize(other)}References`), {
        [`A ${other}`]: referenceExample,
        'A batch': { [name]: [referenceExample] },
      }),
    },
    responses: {
      ...success(
        `The ${other}, or the results of the batch.`,
        json(oneOf(capitalize(other), `Added${capitalize(name)}`), {
          [`A ${other}`]: recordExample(to),
          'A batch': additionsExample(relation),
        }),
        'Idempotent-Replayed',
      ),
      ...failures([
        ...invalidQuery,
        ...referenceFailures(to, limits),
        ...batchFailures(name, limits),
        missing,
        notFound(to, 7),
        stale,
        ...keyFailures,
      ]),
    },
  }

  const remove: Operation = {
    operationId: `remove${capitalize(one)}${capitalize(other)}`,
    tags,
    summary: `Remove a ${one} from a ${other}`,
    description: `Deletes the membership. The ${one} and the ${other} remain.`,
    parameters: [...parameters, idParameter('related', to), ifMatch],
    responses: {
      ...success(
        `The ${one} was removed from the ${other}.`,
        json(ref('Removed'), { Removed: removedExample(`${one} 1 removed from ${other} 1`) }),
      ),
      ...failures([
        ...invalidQuery,
        missing,
        stale,
        new ApiError('membership_not_found', `${one} 1 is not in ${other} 7`),
      ]),
    },
  }

  return { list, create, remove }
}
