// The routes of one resource: its collection, its records and their memberships.
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
import { describeReads, describeWrites } from '../openapi/record-operations.ts'
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

function membershipRoutes(
  resource: Resource,
  relation: LimitedRelation,
  loader: RecordLoader,
  dependencies: RouteDependencies,
): Route[] {
  const { limits, database, counts } = dependencies
  const memberships = createMemberships(database, counts, resource, relation, relation.maxPerRecord(limits))
  const handlers = createMembershipHandlers({ ...dependencies, resource, relation, loader, memberships })
  const operations = describeMemberships(resource, relation, limits)
  const members = { path: `/v1/${resource.plural}/:id/${relation.name}`, checkPath: checkId(resource) }
  const member = { path: `${members.path}/:related`, checkPath: handlers.checkMember }
  return [
    { method: 'get', ...members, handler: handlers.list, operation: operations.list },
    { method: 'post', ...members, handler: handlers.create, operation: operations.create },
    { method: 'delete', ...member, handler: handlers.remove, operation: operations.remove },
  ]
}

export function createResourceRoutes(resource: Resource, dependencies: RouteDependencies): Route[] {
  const { resources, limits, database, cache, counts } = dependencies
  const { plural } = resource
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
  const operations = { ...describeReads(resource, limits), ...describeWrites(resource, limits) }
  const collection = { path: `/v1/${plural}` }
  const record = { path: `${collection.path}/:id`, checkPath: checkId(resource) }
  return [
    { method: 'get', ...collection, handler: read.list, operation: operations.list },
    { method: 'post', ...collection, handler: write.create, operation: operations.create },
    { method: 'get', ...record, handler: read.get, operation: operations.get },
    { method: 'put', ...record, handler: write.replace, operation: operations.replace },
    { method: 'patch', ...record, handler: write.patch, operation: operations.patch },
    { method: 'delete', ...record, handler: write.remove, operation: operations.remove },
    ...related.flatMap(({ relation, includes }) =>
      membershipRoutes(resource, relation, createRecordLoader(database, records, includes), dependencies),
    ),
  ]
}
