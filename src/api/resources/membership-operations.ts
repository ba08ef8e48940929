// Describes the operations on both sides of a relation: list, add and remove memberships.
import type { Config } from '../../config/config.ts'
import type { ApiError } from '../../core/api-error.ts'
import { idName, type Relation, type Resource } from '../../model/resource.ts'
import { notFound, notMember } from '../errors.ts'
import {
  batchExample,
  batchFailures,
  deletedExample,
  idsFailures,
  listFailures,
  missing,
  pageExample,
  queryFailures,
  recordExample,
  referenceExample,
  referenceFailures,
  removedExample,
} from '../openapi/examples.ts'
import { capitalize, oneOf, ref } from '../openapi/json-schema.ts'
import { describe, json } from '../openapi/operation.ts'
import { collectionParameters, idParameter, idsParameters, pagingParameters } from '../openapi/parameters.ts'
import { defaultRecordsPerPage, maxRelatedRecords, parsePagingQuery } from '../requests/query.ts'

/** The records that an operation adds to another record, or removes from it. */
export interface RelatedRecords {
  readonly to: Resource
  /** The field of a batch of them. */
  readonly name: string
}

/** What the operations that add records of `to` to a record of `resource` have in common. */
function addition(resource: Resource, { to, name }: RelatedRecords, limits: Config['limits']) {
  const type = capitalize(to.singular)
  return {
    operationId: `add${capitalize(resource.singular)}${capitalize(name)}`,
    target: resource,
    body: json(oneOf(`${type}Reference`, `${type}References`), {
      [`A ${to.singular}`]: referenceExample,
      'A batch': { [name]: [referenceExample] },
    }),
    success: [
      `The ${to.singular}, or the results of the batch.`,
      json(oneOf(type, `Added${capitalize(name)}`), {
        [`A ${to.singular}`]: recordExample(to),
        'A batch': batchExample(name, to, notFound(to, 2), { id: 2 }),
      }),
    ],
    failures: [...referenceFailures(to, limits), ...batchFailures(name, limits), missing(to)],
  } as const
}

/**
 * What the operations that remove several records of `to` from a record of `resource` have in common.
 * @param removed the message of a membership that was removed
 */
function removal(
  resource: Resource,
  { to, name }: RelatedRecords,
  removed: string,
  error: ApiError,
  limits: Config['limits'],
) {
  return {
    operationId: `remove${capitalize(resource.singular)}${capitalize(name)}`,
    target: resource,
    description: `Deletes the memberships with these ${name}. The ${to.plural} and the ${resource.singular} remain. At least one id is required, and at most ${limits.batchEntries} are allowed. Each id succeeds or fails independently, as its \`meta\` reports; an id that comes twice fails the second time. If a parameter is invalid, nothing is removed.`,
    parameters: idsParameters(`The ids of the ${name}.`),
    invalidQuery: idsFailures(limits),
    success: [
      'The results, in the order of the ids.',
      json(ref(`Removed${capitalize(name)}`), { 'Two ids': deletedExample(name, removed, error) }),
    ],
  } as const
}

/** Describes the operations on both sides of a relation of `resource`. */
export function describeMemberships(resource: Resource, relation: Relation, limits: Config['limits']) {
  const { singular, plural } = resource
  const { to, name } = relation
  const other = to.singular
  const maxMemberships = relation.maxPerRecord(limits)
  const path = `/v1/${plural}/:${idName(resource)}/${name}`
  const membersPath = `/v1/${to.plural}/:${idName(to)}/${plural}`
  const removed = `${singular} 1 removed from ${other} 1`
  const maxRecords = maxRelatedRecords(maxMemberships, limits)
  const page = pageExample(to, `/v1/${plural}/1/${name}`, maxMemberships)
  const membersPage = pageExample(resource, `/v1/${to.plural}/1/${plural}`, defaultRecordsPerPage(limits))

  return {
    list: describe('get', path, {
      operationId: `list${capitalize(singular)}${capitalize(name)}`,
      summary: `List the ${name} of a ${singular}`,
      description: `Returns all ${name} of the ${singular} by ascending id, or a page of them if a paging parameter is given. A ${singular} can have at most ${maxMemberships} ${name}.`,
      target: resource,
      parameters: pagingParameters(maxRecords),
      invalidQuery: queryFailures(
        queryString => parsePagingQuery(queryString, maxMemberships, limits),
        'start_index=-1',
        `records_per_page=${maxRecords + 1}`,
      ),
      success: [
        `The ${name} of the ${singular}.`,
        json(ref(`${capitalize(other)}Page`), { [`All ${name}`]: page }),
      ],
    }),

    create: describe('post', path, {
      ...addition(resource, relation, limits),
      summary: `Add a ${singular} to ${name}`,
      description: `Adds the ${singular} to one ${other}, or to a batch of up to ${limits.batchEntries} ${name}. If the ${singular} is already in a ${other}, adding it again succeeds and changes nothing. Each entry of a batch succeeds or fails independently, as its \`meta\` reports.`,
    }),

    remove: describe('delete', `${path}/:${idName(to)}`, {
      operationId: `remove${capitalize(singular)}${capitalize(other)}`,
      summary: `Remove a ${singular} from a ${other}`,
      description: `Deletes the membership. The ${singular} and the ${other} remain.`,
      target: resource,
      parameters: [idParameter(to)],
      success: [
        `The ${singular} was removed from the ${other}.`,
        json(ref('Removed'), { Removed: removedExample(removed) }),
      ],
      failures: [notMember(resource, 1, to, 7)],
    }),

    removeMany: describe('delete', path, {
      ...removal(resource, relation, removed, notMember(resource, 1, to, 7), limits),
      summary: `Remove a ${singular} from several ${name}`,
    }),

    removeMembers: describe('delete', membersPath, {
      ...removal(to, { to: resource, name: plural }, removed, notMember(resource, 7, to, 1), limits),
      summary: `Remove several ${plural} from a ${other}`,
    }),

    listMembers: describe('get', membersPath, {
      operationId: `list${capitalize(other)}${capitalize(plural)}`,
      summary: `List the ${plural} of a ${other}`,
      description: `Returns a page of the ${plural} in the ${other} that match all filters. The page is the same as that of \`GET /v1/${plural}?${name}[*].id={${idName(to)}}\` with the same other parameters.`,
      target: to,
      parameters: collectionParameters(resource, limits),
      invalidQuery: listFailures(resource, limits),
      success: [
        `A page of the ${plural} of the ${other}.`,
        json(ref(`${capitalize(singular)}Page`), { 'A page': membersPage }),
      ],
    }),

    createMembers: describe('post', membersPath, {
      ...addition(to, { to: resource, name: plural }, limits),
      summary: `Add ${plural} to a ${other}`,
      description: `Adds one ${singular} to the ${other}, or a batch of up to ${limits.batchEntries} ${plural}. If a ${singular} is already in the ${other}, adding it again succeeds and changes nothing. A ${singular} can have at most ${maxMemberships} ${name}. Each entry of a batch succeeds or fails independently, as its \`meta\` reports. \`If-Match\` compares the version of the ${other}, which does not change when its members change. The \`ETag\` of a page of ${plural} therefore never matches.`,
    }),
  }
}
