// The Koa application of a worker: the middleware in order, then the routes.
import type { RequestListener } from 'node:http'
import Koa from 'koa'
import type { IsKnownHost } from '../core/known-hosts.ts'
import type { Log } from '../core/log.ts'
import { createSemaphore } from '../core/semaphore.ts'
import type { Feed } from '../database/feed/feed.ts'
import { resources as registry } from '../model/index.ts'
import type { Resource } from '../model/resource.ts'
import type { FindCaller } from './callers/callers.ts'
import { createChangesRoute } from './changes/changes-route.ts'
import { createDocsRoutes } from './docs/docs-routes.ts'
import { authentication } from './middleware/authentication.ts'
import { errorHandler } from './middleware/error-handler.ts'
import { framing } from './middleware/framing.ts'
import { knownHosts } from './middleware/known-hosts.ts'
import { normalizePath } from './middleware/normalize-path.ts'
import { notFound } from './middleware/not-found.ts'
import { requestId } from './middleware/request-id.ts'
import { securityHeaders } from './middleware/security-headers.ts'
import { unfinishedRequest } from './middleware/unfinished-request.ts'
import { withCaller } from './openapi/callers.ts'
import { createReadBody } from './requests/body.ts'
import type { Services } from './resources/handler-parts.ts'
import { createResourceRoutes } from './resources/routes.ts'
import { createRouter } from './router.ts'

/** A worker has one thread: more pages at a time need more memory, but are not faster. */
const LARGE_PAGES = 2
const LARGE_PAGE_WAIT_MS = 15_000

interface AppDependencies extends Pick<Services, 'limits' | 'database' | 'cache' | 'idempotencyKeys'> {
  /** Undefined: the change feed is off. */
  readonly feed?: Feed | undefined
  readonly log: Log
  readonly isKnownHost: IsKnownHost
  /** Undefined: the API is open to every client. */
  readonly findCaller?: FindCaller | undefined
  readonly resources?: readonly Resource[]
}

/** Returns the listener for the requests of every data port. */
export function createApp(dependencies: AppDependencies): RequestListener {
  const { limits, database, cache, idempotencyKeys, feed, log, isKnownHost, findCaller } = dependencies
  const { resources = registry } = dependencies
  // One of each for all resources: their limits apply to the whole worker.
  const services: Services = {
    resources,
    limits,
    database,
    cache,
    idempotencyKeys,
    readBody: createReadBody(limits),
    inLargePageSlot: createSemaphore(LARGE_PAGES, LARGE_PAGE_WAIT_MS),
  }
  const policies = findCaller === undefined ? [] : [authentication(findCaller)]
  const openRoutes = [
    ...createResourceRoutes(services, policies),
    ...(feed === undefined ? [] : [createChangesRoute(feed, resources, limits, policies)]),
  ]
  const described = findCaller === undefined ? openRoutes : openRoutes.map(withCaller)
  const routes = [...described, ...createDocsRoutes(resources, described, limits)]
  const router = createRouter(routes)

  const app = new Koa()
  app.on('error', error => log.debug({ reason: String(error) }, 'a response could not be sent'))
  app.use(requestId)
  app.use(securityHeaders)
  app.use(unfinishedRequest)
  app.use(errorHandler(log, () => database.downSinceMs() !== undefined))
  app.use(framing)
  app.use(knownHosts(isKnownHost))
  app.use(normalizePath)
  app.use(router.routes())
  app.use(notFound(routes, router))
  return app.callback()
}
