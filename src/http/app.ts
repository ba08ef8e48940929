// The middleware stack and the route table, on one screen.
import type { RequestListener } from 'node:http'
import { Router } from '@koa/router'
import Koa from 'koa'
import type { Config } from '../config.ts'
import type { Log } from '../log.ts'
import type { Resource } from '../resources/definition.ts'
import { groups } from '../resources/groups.ts'
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
import { createEdge } from './edge.ts'
import { createOnce } from './idempotency.ts'
import { createUnrouted } from './unrouted.ts'

export interface AppDependencies {
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly keys: IdempotencyKeys
  readonly log: Log
}

function addRoutes(router: Router, resource: Resource, dependencies: AppDependencies): void {
  const { limits, database, cache, keys } = dependencies
  const { plural, relation } = resource
  const records = createRecords(database, resource)
  const includes = relation && createIncludes(database, cache, resource, relation)
  const lookups = createLookups(records, includes)
  const counts = createCounts(database)
  const writes = createWrites(database, counts, resource)
  const readBody = createReadBody(limits.bodyBytes)

  const once = createOnce(keys)

  const reading = createReadHandlers({ resource, database, records, lookups, includes, limits })
  const writing = createWriteHandlers({ resource, lookups, writes, readBody, once, limits })
  router.get(`/v1/${plural}`, reading.list)
  router.post(`/v1/${plural}`, writing.create)
  router.get(`/v1/${plural}/:id`, reading.get)
  router.put(`/v1/${plural}/:id`, writing.replace)
  router.patch(`/v1/${plural}/:id`, writing.patch)
  router.delete(`/v1/${plural}/:id`, writing.remove)

  if (relation === undefined) return
  const memberships = createMemberships(database, counts, resource, relation, limits.membershipsPerUser)
  const related = createRelationHandlers({ resource, relation, lookups, memberships, readBody, once, limits })
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
