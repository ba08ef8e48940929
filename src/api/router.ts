// What a route is, and the router that a table of them makes.
import { Router } from '@koa/router'
import type { DescribedRoute } from './openapi/document.ts'
import type { CheckPath, Handler } from './resources/handler.ts'

export interface Route extends DescribedRoute {
  readonly handler: Handler
  /** For the methods that the path has not; handlers see to it themselves. */
  readonly checkPath?: CheckPath
}

/** Paths are matched to the letter: case and a trailing slash count. */
export function createRouter(routes: readonly Route[]): Router {
  const router = new Router({ sensitive: true, strict: true })
  for (const { method, path, handler } of routes) router[method](path, handler)
  return router
}
