// Answers requests that no route handles: OPTIONS, methods that a path does not support, and unknown paths.
import type { Router } from '@koa/router'
import type { Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { methodNotAllowed } from '../errors.ts'
import { acceptPatch } from '../requests/body.ts'
import { rejectUnknownParameters } from '../requests/parameters.ts'
import type { Route } from '../router.ts'

/**
 * Answers OPTIONS with 204 and `Allow`, and with `Accept-Patch` if the path has a PATCH. Throws an ApiError for all other requests,
 * and for an OPTIONS with an invalid path or query.
 * @param routes all routes of the service
 * @param router the router for these routes
 */
export function notFound(routes: readonly Route[], router: Router): Middleware {
  /** The layers that match a path, one for each route. */
  const layersOf = (path: string) => router.match(path, '').path

  function routeNotFound(path: string): ApiError {
    const versioned = `/v1${path.startsWith('/') ? path : `/${path}`}`
    const isVersioned = path === '/v1' || path.startsWith('/v1/')
    const hint = isVersioned ? '' : ': every path begins with /v1'
    const suggestion = !isVersioned && layersOf(versioned).length > 0 ? `, try ${versioned}` : ''
    return new ApiError(
      'route_not_found',
      `there is no route ${path}${hint}${suggestion}; /v1/docs lists the routes`,
    )
  }

  return ctx => {
    const layers = layersOf(ctx.path)
    const [layer] = layers
    if (layer === undefined) throw routeNotFound(ctx.path)
    const matching = routes.filter(({ path }) => path === layer.path)
    const params = layer.params(ctx.path, layer.captures(ctx.path))
    for (const { checkPath } of matching) checkPath?.(params)
    const methods = new Set(layers.flatMap(({ methods }) => methods))
    const allow = [...methods, 'OPTIONS'].sort().join(', ')
    if (ctx.method !== 'OPTIONS') throw methodNotAllowed(ctx.method, allow)
    // A CORS preflight repeats the query of the request that follows it.
    const parameters = matching.flatMap(({ operation }) => operation.parameters)
    const inQuery = parameters.filter(parameter => parameter.in === 'query')
    rejectUnknownParameters(
      ctx.querystring,
      inQuery.map(({ name }) => name),
    )
    ctx.set('Allow', allow)
    if (methods.has('PATCH')) ctx.set(acceptPatch)
    ctx.status = 204
  }
}
