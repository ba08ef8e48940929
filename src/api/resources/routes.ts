// The routes of the resources: collections, records and memberships.
import type { Cache } from '../../cache/cache.ts'
import type { Config } from '../../config/config.ts'
import type { Counts } from '../../database/counting/counts.ts'
import type { Database } from '../../database/database.ts'
import { createIncludeSets } from '../../database/reading/include-sets.ts'
import { createIncludes } from '../../database/reading/includes.ts'
import { createRecordLoader, type RecordLoader } from '../../database/reading/record-loader.ts'
import { createRecords } from '../../database/reading/records.ts'
import { createDelete } from '../../database/writing/delete.ts'
import { createInserts } from '../../database/writing/insert.ts'
import { createMemberships } from '../../database/writing/memberships.ts'
import { createUpdate } from '../../database/writing/update.ts'
import { type LimitedRelation, limitedRelations, type Resource } from '../../model/resource.ts'
import { describeMemberships } from '../openapi/membership-operations.ts'
import { describeRecords } from '../openapi/record-operations.ts'
import type { ReadBody } from '../requests/body.ts'
import type { Route } from '../router.ts'
import { checkId } from './handler.ts'
import { createMembershipHandlers } from './membership-handlers.ts'
import { createReadHandlers } from './read-handlers.ts'
import type { WithIdempotency } from './with-idempotency.ts'
import { createWriteHandlers } from './write-handlers.ts'

/** What the routes of all resources share. */
export interface RouteDependencies {
  readonly resources: readonly Resource[]
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly counts: Counts
  readonly readBody: ReadBody
  readonly withIdempotency: WithIdempotency
}

/** The routes of a relation. Those of its other side come last in the document, after the routes of that resource. */
interface RelationRoutes {
  readonly own: readonly Route[]
  readonly otherSide: readonly Route[]
}

function relationRoutes(
  resource: Resource,
  relation: LimitedRelation,
  loader: RecordLoader,
  listMembers: ReturnType<typeof createReadHandlers>['listMembers'],
  dependencies: RouteDependencies,
): RelationRoutes {
  const { limits, database, counts } = dependencies
  const { to } = relation
  const memberships = createMemberships(database, counts, resource, relation, relation.maxPerRecord(limits))
  const handlers = createMembershipHandlers({ ...dependencies, resource, relation, loader, memberships })
  const described = describeMemberships(resource, relation, limits)
  const checkPath = checkId(resource)
  const checkOther = checkId(to)
  const list = listMembers(relation, createRecordLoader(database, createRecords(database, to)))
  return {
    own: [
      { ...described.list, checkPath, handler: handlers.list },
      { ...described.create, checkPath, handler: handlers.create },
      { ...described.remove, checkPath: handlers.checkMember, handler: handlers.remove },
    ],
    otherSide: [
      { ...described.listMembers, checkPath: checkOther, handler: list },
      { ...described.createMembers, checkPath: checkOther, handler: handlers.createMembers },
    ],
  }
}

function routesOf(resource: Resource, dependencies: RouteDependencies): RelationRoutes {
  const { resources, limits, database, cache, counts } = dependencies
  const records = createRecords(database, resource)
  const loader = createRecordLoader(database, records)
  const related = limitedRelations(resource).map(relation => ({
    relation,
    includes: createIncludes(database, cache, resource, relation),
  }))
  const includeSet = createIncludeSets(
    database,
    records,
    new Map(related.map(({ relation, includes }) => [relation.name, includes])),
  )

  const read = createReadHandlers({ resource, database, records, loader, includeSet, limits })
  const write = createWriteHandlers({
    ...dependencies,
    resource,
    loader,
    inserts: createInserts(database, counts, resource),
    update: createUpdate(database, resource),
    remove: createDelete(database, counts, resource, resources),
  })
  const described = describeRecords(resource, limits)
  const checkPath = checkId(resource)
  const relations = related.map(({ relation, includes }) =>
    relationRoutes(
      resource,
      relation,
      createRecordLoader(database, records, includes),
      read.listMembers,
      dependencies,
    ),
  )
  return {
    own: [
      { ...described.list, handler: read.list },
      { ...described.create, handler: write.create },
      { ...described.get, checkPath, handler: read.get },
      { ...described.replace, checkPath, handler: write.replace },
      { ...described.patch, checkPath, handler: write.patch },
      { ...described.remove, checkPath, handler: write.remove },
      ...relations.flatMap(({ own }) => own),
    ],
    otherSide: relations.flatMap(({ otherSide }) => otherSide),
  }
}

/** Returns the routes of all resources. */
export function createResourceRoutes(dependencies: RouteDependencies): Route[] {
  const routes = dependencies.resources.map(resource => routesOf(resource, dependencies))
  return [...routes.flatMap(({ own }) => own), ...routes.flatMap(({ otherSide }) => otherSide)]
}
