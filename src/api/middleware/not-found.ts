// Answers requests that no route handles: OPTIONS, methods that a path does not support, and unknown paths.
import type { Router } from '@koa/router'
import type { Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { methodNotAllowed } from '../errors.ts'
import { rejectUnknownParameters } from '../requests/query.ts'
import type { Route } from '../router.ts'

/** The layers that match a path, one for each route. */
const layersOf = (routers: readonly Router[], path: string) =>
  routers.flatMap(router => router.match(path, '').path)

function routeNotFound(routers: readonly Router[], path: string): ApiError {
  const versioned = `/v1${path.startsWith('/') ? path : `/${path}`}`
  const isVersioned = path === '/v1' || path.startsWith('/v1/')
  const hint = isVersioned ? '' : ': every path begins with /v1'
  const suggestion = !isVersioned && layersOf(routers, versioned).length > 0 ? `, try ${versioned}` : ''
  return new ApiError(
    'route_not_found',
    `there is no route ${path}${hint}${suggestion}; /v1/docs lists the routes`,
  )
}

/** The query parameters that any method of these routes accepts. */
const queryParametersOf = (routes: readonly Route[]): string[] =>
  routes
    .flatMap(({ operation }) => operation.parameters)
    .filter(parameter => parameter.in === 'query')
    .map(({ name }) => name)

/**
 * Throws `route_not_found` or `method_not_allowed`, or answers OPTIONS with 204 and `Allow`.
 * @param routes the routes of all `routers`
 */
export function notFound(routers: readonly Router[], routes: readonly Route[]): Middleware {
  return ctx => {
    const layers = layersOf(routers, ctx.path)
    const [layer] = layers
    if (layer === undefined) throw routeNotFound(routers, ctx.path)
    const matching = routes.filter(({ path }) => path === layer.path)
    const params = layer.params(ctx.path, layer.captures(ctx.path))
    for (const { checkPath } of matching) checkPath?.(params)
    const methods = new Set(layers.flatMap(({ methods }) => methods))
    const allow = [...methods, 'OPTIONS'].sort().join(', ')
    if (ctx.method !== 'OPTIONS') throw methodNotAllowed(ctx.method, allow)
    // A CORS preflight repeats the query of the request that follows it.
    rejectUnknownParameters(ctx.querystring, queryParametersOf(matching))
    ctx.set('Allow', allow)
    ctx.status = 204
  }
}
