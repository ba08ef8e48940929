// Describes the operations on both sides of a relation: list, add and remove memberships.
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { LimitedRelation, Relation, Resource } from '../../model/resource.ts'
import { parseNoQuery, parsePagingQuery, unpagedRecords } from '../requests/query.ts'
import { idName } from '../resources/handler.ts'
import {
  additionsExample,
  batchFailures,
  keyFailures,
  listFailures,
  missing,
  missingOrStale,
  pageExample,
  queryFailures,
  recordExample,
  referenceExample,
  referenceFailures,
  removedExample,
} from './examples.ts'
import { filterParameters } from './filter-parameters.ts'
import { capitalize, oneOf, ref } from './json-schema.ts'
import {
  collectionParameters,
  idempotencyKey,
  idParameter,
  ifMatch,
  ifNoneMatch,
  pagingParameters,
} from './parameters.ts'
import { failures, json, type Operation, read, success } from './responses.ts'

/**
 * Describes the operation that adds records to the record of the path.
 * @param added the added records: their resource, and the name of a batch of them
 */
function describeAddition(
  resource: Resource,
  added: Pick<Relation, 'to' | 'name'>,
  limits: Config['limits'],
  texts: Pick<Operation, 'summary' | 'description'>,
): Operation {
  const { to, name } = added
  const [one, other] = [resource.singular, to.singular]
  return {
    operationId: `add${capitalize(one)}${capitalize(name)}`,
    tags: [capitalize(resource.plural)],
    ...texts,
    parameters: [idParameter(resource), ifMatch, idempotencyKey],
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
          'A batch': additionsExample(added),
        }),
        'Idempotent-Replayed',
      ),
      ...failures([
        ...queryFailures(parseNoQuery),
        ...referenceFailures(to, limits),
        ...batchFailures(name, limits),
        ...missingOrStale(resource),
        missing(to),
        ...keyFailures,
      ]),
    },
  }
}

/** Describes the operations on the related records of a record. */
function describeRelated(resource: Resource, relation: LimitedRelation, limits: Config['limits']) {
  const { to, name } = relation
  const [one, other] = [resource.singular, to.singular]
  const maxMemberships = relation.maxPerRecord(limits)
  const tags = [capitalize(resource.plural)] as const
  const parameters = [idParameter(resource)]

  const parsePaging = (search: string) => parsePagingQuery(search, maxMemberships, limits)
  const tooManyRecords = `records_per_page=${limits.recordsPerPage + 1}`
  const page = pageExample(to, `/v1/${resource.plural}/1/${name}`, maxMemberships)

  const list: Operation = {
    operationId: `list${capitalize(one)}${capitalize(name)}`,
    tags,
    summary: `List the ${name} of a ${one}`,
    description: `Returns all ${name} of the ${one} by ascending id, or a page of them if a paging parameter is given. A ${one} can have at most ${maxMemberships} ${name}.`,
    parameters: [...parameters, ...pagingParameters(limits), ifNoneMatch],
    responses: {
      ...read(`The ${name} of the ${one}.`, json(ref(`${capitalize(other)}Page`), { [`All ${name}`]: page })),
      ...failures([...queryFailures(parsePaging, 'start_index=-1', tooManyRecords), missing(resource)]),
    },
  }

  const create = describeAddition(resource, relation, limits, {
    summary: `Add a ${one} to ${name}`,
    description: `Adds the ${one} to one ${other}, or to a batch of up to ${limits.batchEntries} ${name}. If the ${one} is already in a ${other}, adding it again succeeds and changes nothing. Each entry of a batch succeeds or fails independently, as its \`meta\` reports.`,
  })

  const remove: Operation = {
    operationId: `remove${capitalize(one)}${capitalize(other)}`,
    tags,
    summary: `Remove a ${one} from a ${other}`,
    description: `Deletes the membership. The ${one} and the ${other} remain.`,
    parameters: [...parameters, idParameter(to), ifMatch],
    responses: {
      ...success(
        `The ${one} was removed from the ${other}.`,
        json(ref('Removed'), { Removed: removedExample(`${one} 1 removed from ${other} 1`) }),
      ),
      ...failures([
        ...queryFailures(parseNoQuery),
        ...missingOrStale(resource),
        new ApiError('membership_not_found', `${one} 1 is not in ${other} 7`),
      ]),
    },
  }

  return { list, create, remove }
}

/** Describes the operations on the other side of a relation: those on the members of one related record. */
function describeMembers(resource: Resource, relation: LimitedRelation, limits: Config['limits']) {
  const { plural: members, singular: member } = resource
  const { to, name } = relation
  const one = to.singular
  const maxMemberships = relation.maxPerRecord(limits)
  const page = pageExample(resource, `/v1/${to.plural}/1/${members}`, unpagedRecords(limits))

  const listMembers: Operation = {
    operationId: `list${capitalize(one)}${capitalize(members)}`,
    tags: [capitalize(to.plural)],
    summary: `List the ${members} of a ${one}`,
    description: `Returns a page of the ${members} in the ${one} that match all filters. The page is the same as that of \`GET /v1/${members}?${name}[*].id={${idName(to)}}\` with the same other parameters.`,
    parameters: [
      idParameter(to),
      ...collectionParameters(resource, limits),
      ...filterParameters(resource),
      ifNoneMatch,
    ],
    responses: {
      ...read(
        `A page of the ${members} of the ${one}.`,
        json(ref(`${capitalize(member)}Page`), { 'A page': page }),
      ),
      ...failures([...listFailures(resource, limits), missing(to)]),
    },
  }

  const createMembers = describeAddition(to, { to: resource, name: members }, limits, {
    summary: `Add ${members} to a ${one}`,
    description: `Adds one ${member} to the ${one}, or a batch of up to ${limits.batchEntries} ${members}. If a ${member} is already in the ${one}, adding it again succeeds and changes nothing. A ${member} can have at most ${maxMemberships} ${name}. Each entry of a batch succeeds or fails independently, as its \`meta\` reports. \`If-Match\` compares the version of the ${one}, which does not change when its members change. The \`ETag\` of a page of ${members} therefore never matches.`,
  })

  return { listMembers, createMembers }
}

/** Describes the operations on both sides of a relation of `resource`. */
export const describeMemberships = (
  resource: Resource,
  relation: LimitedRelation,
  limits: Config['limits'],
) => ({
  ...describeRelated(resource, relation, limits),
  ...describeMembers(resource, relation, limits),
})
