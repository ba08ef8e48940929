// The middleware stack and the route table, on one screen.
import type { RequestListener } from 'node:http'
import { Router } from '@koa/router'
import Koa from 'koa'
import type { Config } from '../config.ts'
import type { Log } from '../log.ts'
import type { Resource } from '../resources/definition.ts'
import { groups } from '../resources/groups.ts'
import { createHandlers } from '../resources/handlers.ts'
import { createRelationHandlers } from '../resources/relations.ts'
import { users } from '../resources/users.ts'
import type { Cache } from '../store/cache.ts'
import { createCounts } from '../store/counts.ts'
import type { Database } from '../store/database.ts'
import { createIncludes } from '../store/includes.ts'
import { createLookups } from '../store/lookups.ts'
import { createMemberships } from '../store/memberships.ts'
import { createRecords } from '../store/records.ts'
import { createWrites } from '../store/writes.ts'
import { createReadBody } from './body.ts'
import { createEdge } from './edge.ts'
import { createUnrouted } from './unrouted.ts'

export interface AppDependencies {
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly log: Log
}

function addRoutes(router: Router, resource: Resource, { limits, database, cache }: AppDependencies): void {
  const { plural, relation } = resource
  const records = createRecords(database, resource)
  const includes = relation && createIncludes(database, cache, resource, relation)
  const lookups = createLookups(records, includes)
  const counts = createCounts(database)
  const writes = createWrites(database, counts, resource)
  const readBody = createReadBody(limits.bodyBytes)

  const own = createHandlers({ resource, database, records, lookups, writes, includes, readBody, limits })
  router.get(`/v1/${plural}`, own.list)
  router.post(`/v1/${plural}`, own.create)
  router.get(`/v1/${plural}/:id`, own.get)
  router.put(`/v1/${plural}/:id`, own.replace)
  router.patch(`/v1/${plural}/:id`, own.patch)
  router.delete(`/v1/${plural}/:id`, own.remove)

  if (relation === undefined) return
  const memberships = createMemberships(database, counts, resource, relation, limits.membershipsPerUser)
  const related = createRelationHandlers({ resource, relation, lookups, memberships, readBody, limits })
  router.get(`/v1/${plural}/:id/${relation.name}`, related.list)
  router.post(`/v1/${plural}/:id/${relation.name}`, related.create)
  router.delete(`/v1/${plural}/:id/${relation.name}/:related`, related.remove)
}

/** @returns what answers the requests of every data port */
export function createApp(dependencies: AppDependencies): RequestListener {
  const { limits, log } = dependencies
  const router = new Router({ sensitive: true, strict: true })
  for (const resource of [users, groups]) addRoutes(router, resource, dependencies)

  const app = new Koa()
  app.on('error', error => log.debug({ reason: String(error) }, 'a response could not be sent'))
  app.use(createEdge(limits, log))
  app.use(router.routes())
  app.use(createUnrouted(router))
  return app.callback()
}
