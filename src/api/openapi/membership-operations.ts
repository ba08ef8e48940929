// What the handlers of a resource's relation do: the operations of the document under their names.
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { Relation, Resource } from '../../model/resource.ts'
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
import { capital, oneOf, ref } from './json-schema.ts'
import { idempotencyKey, idParameter, ifMatch, ifNoneMatch, pagingParameters } from './parameters.ts'
import { failures, json, type Operation, read, success } from './responses.ts'

export function describeMemberships(resource: Resource, relation: Relation, limits: Config['limits']) {
  const { to, name } = relation
  const [one, other] = [resource.singular, to.singular]
  const tags = [capital(resource.plural)] as const
  const parameters = [idParameter('id', resource)]
  const missing = notFound(resource, 7)
  const stale = preconditionFailed(`the ${one} with the id 1`)
  const noQuery = queryFailures(parseNoQuery)

  const parsePaging = (search: string) => parsePagingQuery(search, limits.membershipsPerUser, limits)
  const tooMany = `records_per_page=${limits.recordsPerPage + 1}`
  const page = pageExample(to, `/v1/${resource.plural}/1/${name}`, limits.membershipsPerUser)

  const list: Operation = {
    operationId: `list${capital(one)}${capital(name)}`,
    tags,
    summary: `List the ${name} of one ${one}`,
    description: `All of them, by ascending id, unless paged: a ${one} can have ${limits.membershipsPerUser}.`,
    parameters: [...parameters, ...pagingParameters(limits), ifNoneMatch],
    responses: {
      ...read(`The ${name} of the ${one}.`, json(ref(`${capital(other)}Page`), { 'All of them': page })),
      ...failures([...queryFailures(parsePaging, 'start_index=-1', tooMany), missing]),
    },
  }

  const create: Operation = {
    operationId: `add${capital(one)}${capital(name)}`,
    tags,
    summary: `Add ${name} to one ${one}`,
    description: `It is no failure to have one of them already. A batch has up to ${limits.batchEntries} entries; each is added or fails by itself, as its own \`meta\` says.`,
    parameters: [...parameters, ifMatch, idempotencyKey],
    requestBody: {
      required: true,
      content: json(oneOf(`${capital(other)}Reference`, `${capital(other)}References`), {
        [`One ${other}`]: referenceExample,
        'A batch': { [name]: [referenceExample] },
      }),
    },
    responses: {
      ...success(
        `The ${other}, or one entry for each of the batch.`,
        json(oneOf(capital(other), `Added${capital(name)}`), {
          [`One ${other}`]: recordExample(to),
          'A batch': additionsExample(relation),
        }),
        'Idempotent-Replayed',
      ),
      ...failures([
        ...noQuery,
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
    operationId: `remove${capital(one)}${capital(other)}`,
    tags,
    summary: `Take one ${other} from one ${one}`,
    description: `The ${other} stays.`,
    parameters: [...parameters, idParameter('related', to), ifMatch],
    responses: {
      ...success(
        'It is no member any more.',
        json(ref('Removed'), { Removed: removedExample(`${one} 1 removed from ${other} 1`) }),
      ),
      ...failures([
        ...noQuery,
        missing,
        stale,
        new ApiError('membership_not_found', `${one} 1 is not in ${other} 7`),
      ]),
    },
  }

  return { list, create, remove }
}
