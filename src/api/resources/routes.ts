// The routes of the resources: collections, records and memberships.
import { createIncludeSets } from '../../database/reading/include-sets.ts'
import { createIncludes } from '../../database/reading/includes.ts'
import { createRecords } from '../../database/reading/records.ts'
import type { Resource } from '../../model/resource.ts'
import type { CheckPath, Policy, Route } from '../router.ts'
import { pathId, type Services } from './handler-parts.ts'
import { createMembershipHandlers } from './membership-handlers.ts'
import { describeMemberships } from './membership-operations.ts'
import { createReadHandlers } from './read-handlers.ts'
import { describeRecords } from './record-operations.ts'
import { createWriteHandlers } from './write-handlers.ts'

function routesOf(resource: Resource, services: Services, policies: readonly Policy[]): Route[] {
  const { limits, database, cache } = services
  const records = createRecords(database, resource)
  const includes = resource.relations.map(
    relation => [relation.name, createIncludes(database, cache, resource, relation)] as const,
  )
  const includeSet = createIncludeSets(database, records, new Map(includes))
  const read = createReadHandlers(resource, records, includeSet, services)
  const write = createWriteHandlers(resource, services)
  const described = describeRecords(resource, limits)
  const checkPath: CheckPath = params => void pathId(resource, params)

  const relations = resource.relations.flatMap((relation): Route[] => {
    const { to } = relation
    const { findComplete } = includeSet([relation.name])
    const handlers = createMembershipHandlers(resource, relation, findComplete, services)
    const described = describeMemberships(resource, relation, limits)
    const checkOther: CheckPath = params => void pathId(to, params)
    return [
      { ...described.list, checkPath, policies, handler: handlers.list },
      { ...described.create, checkPath, policies, handler: handlers.create },
      { ...described.removeMany, checkPath, policies, handler: handlers.removeMany },
      { ...described.remove, checkPath: handlers.checkMember, policies, handler: handlers.remove },
      { ...described.listMembers, checkPath: checkOther, policies, handler: read.listMembers(relation) },
      { ...described.createMembers, checkPath: checkOther, policies, handler: handlers.createMembers },
      { ...described.removeMembers, checkPath: checkOther, policies, handler: handlers.removeMembers },
    ]
  })

  return [
    { ...described.list, policies, handler: read.list },
    { ...described.create, policies, handler: write.create },
    { ...described.patchMany, policies, handler: write.patchMany },
    { ...described.removeMany, policies, handler: write.removeMany },
    { ...described.get, checkPath, policies, handler: read.get },
    { ...described.replace, checkPath, policies, handler: write.replace },
    { ...described.patch, checkPath, policies, handler: write.patch },
    { ...described.remove, checkPath, policies, handler: write.remove },
    ...relations,
  ]
}

/** Returns the routes of all resources. @param policies of each route */
export function createResourceRoutes(services: Services, policies: readonly Policy[]): Route[] {
  return services.resources.flatMap(resource => routesOf(resource, services, policies))
}
