// A route of the service: its description, its policies and its handler; and the router for a table of routes.
import { Router } from '@koa/router'
import type { Context, Middleware } from 'koa'
import type { DescribedRoute } from './openapi/operation.ts'

/** The parameters of the path, by name. */
export type PathParams = Readonly<Record<string, string>>

export type Handler = (ctx: Context & { params: PathParams }) => Promise<void>

/** Checks the parameters of a path, for any method. @throws ApiError with status 404 if they cannot identify a record */
export type CheckPath = (params: PathParams) => void

/**
 * A condition for all requests to a route, such as `authentication`. It throws an ApiError, or calls `next`. It runs before the
 * parameters are checked and the body is read: the handler checks what these contain. While a stream of changes is open, the
 * policies of its route run again and again.
 */
export type Policy = Middleware

export interface Route extends DescribedRoute {
  /** They run in this order, before the handler. */
  readonly policies: readonly Policy[]
  readonly handler: Handler
  /** Checks the path for methods that the path does not support. Handlers check it themselves. */
  readonly checkPath?: CheckPath
}

/** Paths match exactly: case and a trailing slash count. */
export function createRouter(routes: readonly Route[]): Router {
  const router = new Router({ sensitive: true, strict: true })
  for (const { method, path, policies, handler } of routes) {
    const nameRoute: Middleware = (ctx, next) => {
      // For the request log.
      ctx.res.route = path
      return next()
    }
    router[method](path, nameRoute, ...policies, handler)
  }
  return router
}
