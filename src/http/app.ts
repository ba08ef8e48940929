// The middleware stack and the route table, on one screen.
import type { RequestListener } from 'node:http'
import Koa from 'koa'
import type { Config } from '../config.ts'
import type { Log } from '../log.ts'
import type { Resource } from '../resources/definition.ts'
import { groups } from '../resources/groups.ts'
import { describeMemberships } from '../resources/openapi/memberships.ts'
import { describeReads } from '../resources/openapi/reads.ts'
import { describeWrites } from '../resources/openapi/writes.ts'
import { createReadHandlers } from '../resources/reading.ts'
import { createRelationHandlers } from '../resources/relations.ts'
import { users } from '../resources/users.ts'
import { createWriteHandlers } from '../resources/writing.ts'
import type { Cache } from '../store/cache.ts'
import { createCounts } from '../store/counts.ts'
import type { Database } from '../store/database.ts'
import type { IdempotencyKeys } from '../store/idempotency.ts'
import { createIncludes } from '../store/includes.ts'
import { createLookups } from '../store/lookups.ts'
import { createMemberships } from '../store/memberships.ts'
import { createRecords } from '../store/records.ts'
import { createWrites } from '../store/writes.ts'
import { createReadBody } from './body.ts'
import { documentRoutes } from './docs.ts'
import { createEdge } from './edge.ts'
import { createOnce } from './idempotency.ts'
import { createRouter, type Route } from './routes.ts'
import { createUnrouted } from './unrouted.ts'

export interface AppDependencies {
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly keys: IdempotencyKeys
  readonly log: Log
}

function routesOf(resource: Resource, dependencies: AppDependencies): Route[] {
  const { limits, database, cache, keys } = dependencies
  const { plural, relation } = resource
  const records = createRecords(database, resource)
  const includes = relation && createIncludes(database, cache, resource, relation)
  const lookups = createLookups(records, includes)
  const counts = createCounts(database)
  const writes = createWrites(database, counts, resource)
  const readBody = createReadBody(limits)

  const once = createOnce(keys)

  const reading = createReadHandlers({ resource, database, records, lookups, includes, limits })
  const writing = createWriteHandlers({ resource, lookups, writes, readBody, once, limits })
  const readSays = describeReads(resource, limits)
  const writeSays = describeWrites(resource, limits)
  const all = `/v1/${plural}`
  const one = `${all}/:id`
  const routes: Route[] = [
    { method: 'get', path: all, handler: reading.list, operation: readSays.list },
    { method: 'post', path: all, handler: writing.create, operation: writeSays.create },
    { method: 'get', path: one, handler: reading.get, operation: readSays.get },
    { method: 'put', path: one, handler: writing.replace, operation: writeSays.replace },
    { method: 'patch', path: one, handler: writing.patch, operation: writeSays.patch },
    { method: 'delete', path: one, handler: writing.remove, operation: writeSays.remove },
  ]
  if (relation === undefined) return routes
  const memberships = createMemberships(database, counts, resource, relation, limits.membershipsPerUser)
  const related = createRelationHandlers({ resource, relation, lookups, memberships, readBody, once, limits })
  const said = describeMemberships(resource, relation, limits)
  const members = `${one}/${relation.name}`
  return [
    ...routes,
    { method: 'get', path: members, handler: related.list, operation: said.list },
    { method: 'post', path: members, handler: related.create, operation: said.create },
    { method: 'delete', path: `${members}/:related`, handler: related.remove, operation: said.remove },
  ]
}

/** @returns what answers the requests of every data port */
export function createApp(dependencies: AppDependencies): RequestListener {
  const { limits, log } = dependencies
  const resources = [users, groups]
  const routes = resources.flatMap(resource => routesOf(resource, dependencies))
  // Two routers: what is asked all the time is not held against what few ask for.
  const routers = [routes, documentRoutes(resources, routes, limits)].map(createRouter)

  const app = new Koa()
  app.on('error', error => log.debug({ reason: String(error) }, 'a response could not be sent'))
  app.use(createEdge(limits, log))
  for (const router of routers) app.use(router.routes())
  app.use(createUnrouted(routers))
  return app.callback()
}
