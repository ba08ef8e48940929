// A route of the service, and the router for a table of routes.
import { Router } from '@koa/router'
import type { Context, Middleware } from 'koa'
import type { DescribedRoute } from './openapi/operation.ts'

/** The parameters of the path, by name. */
export type PathParams = Readonly<Record<string, string>>

export type Handler = (ctx: Context & { params: PathParams }) => Promise<void>

/** Checks the parameters of a path, for any method. @throws ApiError with status 404 if they cannot identify a record */
export type CheckPath = (params: PathParams) => void

export interface Route extends DescribedRoute {
  readonly handler: Handler
  /** Checks the path for methods that the path does not support. Handlers check it themselves. */
  readonly checkPath?: CheckPath
}

/**
 * Paths match exactly: case and a trailing slash count.
 * @param before runs before the handler of each route; requests without a route do not reach it
 */
export function createRouter(routes: readonly Route[], before?: Middleware): Router {
  const router = new Router({ sensitive: true, strict: true })
  for (const { method, path, handler } of routes)
    router[method](path, ctx => {
      // For the request log.
      ctx.res.route = path
      return before === undefined ? handler(ctx) : before(ctx, () => handler(ctx))
    })
  return router
}
