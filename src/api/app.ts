// The middleware stack and the route table, on one screen.
import type { RequestListener } from 'node:http'
import Koa from 'koa'
import type { Cache } from '../cache/cache.ts'
import type { Config } from '../config/config.ts'
import type { Log } from '../core/log.ts'
import { type Counts, createCounts } from '../database/counting/counts.ts'
import type { Database } from '../database/database.ts'
import type { IdempotencyKeys } from '../database/idempotency-keys.ts'
import { createIncludes } from '../database/reading/includes.ts'
import { createRecordLoader } from '../database/reading/record-loader.ts'
import { createRecords } from '../database/reading/records.ts'
import { createDelete } from '../database/writing/delete.ts'
import { createInserts } from '../database/writing/insert.ts'
import { createMemberships } from '../database/writing/memberships.ts'
import { createUpdate } from '../database/writing/update.ts'
import { resources } from '../model/index.ts'
import type { Resource } from '../model/resource.ts'
import { documentRoutes } from './docs/docs-routes.ts'
import { createEdge } from './middleware/edge.ts'
import { createNotFound } from './middleware/not-found.ts'
import { describeMemberships } from './openapi/memberships.ts'
import { describeReads } from './openapi/reads.ts'
import { describeWrites } from './openapi/writes.ts'
import { createReadBody, type ReadBody } from './requests/body.ts'
import { checkId } from './resources/handler.ts'
import { createMembershipHandlers } from './resources/membership-handlers.ts'
import { createReadHandlers } from './resources/read-handlers.ts'
import { createWithIdempotency, type WithIdempotency } from './resources/with-idempotency.ts'
import { createWriteHandlers } from './resources/write-handlers.ts'
import { createRouter, type Route } from './router.ts'

export interface AppDependencies {
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly keys: IdempotencyKeys
  readonly log: Log
}

/** What all resources share: its bounds are those of the whole worker. */
interface Shared extends AppDependencies {
  readonly counts: Counts
  readonly readBody: ReadBody
  readonly withIdempotency: WithIdempotency
}

function routesOf(resource: Resource, shared: Shared): Route[] {
  const { limits, database, cache, counts, readBody, withIdempotency } = shared
  const { plural, relation } = resource
  const records = createRecords(database, resource)
  const includes = relation && createIncludes(database, cache, resource, relation)
  const loader = createRecordLoader(records, includes)
  const inserts = createInserts(database, counts, resource)
  const update = createUpdate(database, resource)
  const remove = createDelete(database, counts, resource)

  const reading = createReadHandlers({ resource, database, records, loader, includes, limits })
  const writing = createWriteHandlers({
    resource,
    loader,
    inserts,
    update,
    remove,
    readBody,
    withIdempotency,
    limits,
  })
  const readSays = describeReads(resource, limits)
  const writeSays = describeWrites(resource, limits)
  const all = `/v1/${plural}`
  const one = { path: `${all}/:id`, checkPath: checkId(resource) }
  const routes: Route[] = [
    { method: 'get', path: all, handler: reading.list, operation: readSays.list },
    { method: 'post', path: all, handler: writing.create, operation: writeSays.create },
    { method: 'get', ...one, handler: reading.get, operation: readSays.get },
    { method: 'put', ...one, handler: writing.replace, operation: writeSays.replace },
    { method: 'patch', ...one, handler: writing.patch, operation: writeSays.patch },
    { method: 'delete', ...one, handler: writing.remove, operation: writeSays.remove },
  ]
  if (relation === undefined) return routes
  const memberships = createMemberships(database, counts, resource, relation, limits.membershipsPerUser)
  const related = createMembershipHandlers({
    resource,
    relation,
    loader,
    memberships,
    readBody,
    withIdempotency,
    limits,
  })
  const said = describeMemberships(resource, relation, limits)
  const members = { ...one, path: `${one.path}/${relation.name}` }
  const member = { path: `${members.path}/:related`, checkPath: related.checkMember }
  return [
    ...routes,
    { method: 'get', ...members, handler: related.list, operation: said.list },
    { method: 'post', ...members, handler: related.create, operation: said.create },
    { method: 'delete', ...member, handler: related.remove, operation: said.remove },
  ]
}

/** @returns what answers the requests of every data port */
export function createApp(dependencies: AppDependencies): RequestListener {
  const { limits, database, keys, log } = dependencies
  const shared: Shared = {
    ...dependencies,
    counts: createCounts(database),
    readBody: createReadBody(limits),
    withIdempotency: createWithIdempotency(keys),
  }
  const routes = resources.flatMap(resource => routesOf(resource, shared))
  const others = documentRoutes(resources, routes, limits)
  // Two routers: what is asked all the time is not held against what few ask for.
  const routers = [routes, others].map(createRouter)

  const app = new Koa()
  app.on('error', error => log.debug({ reason: String(error) }, 'a response could not be sent'))
  app.use(createEdge(limits, log))
  for (const router of routers) app.use(router.routes())
  app.use(createNotFound(routers, [...routes, ...others]))
  return app.callback()
}
