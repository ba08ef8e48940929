// Requests that no operation answers: OPTIONS, methods and paths that there are none for.
import type { Router } from '@koa/router'
import type { Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { rejectUnknownParameters } from '../requests/query.ts'
import type { Route } from '../router.ts'

/** One for each operation that a path has; none where there is no such path. */
const layersOf = (routers: readonly Router[], path: string) =>
  routers.flatMap(router => router.match(path, '').path)

function noRoute(routers: readonly Router[], path: string): ApiError {
  const versioned = `/v1${path.startsWith('/') ? path : `/${path}`}`
  const hint = path === '/v1' || path.startsWith('/v1/') ? '' : ': every path begins with /v1'
  const meant = hint !== '' && layersOf(routers, versioned).length > 0 ? `, this one may be ${versioned}` : ''
  return new ApiError(
    'route_not_found',
    `there is nothing at ${path}${hint}${meant}; what there is: /v1/docs`,
  )
}

/** What can stand in the query of a path, whatever the method. */
const parametersOf = (routes: readonly Route[]): string[] =>
  routes
    .flatMap(({ operation }) => operation.parameters)
    .filter(parameter => parameter.in === 'query')
    .map(({ name }) => name)

/** @param routes of all `routers` */
export function createNotFound(routers: readonly Router[], routes: readonly Route[]): Middleware {
  return ctx => {
    const layers = layersOf(routers, ctx.path)
    const [layer] = layers
    if (layer === undefined) throw noRoute(routers, ctx.path)
    const here = routes.filter(({ path }) => path === layer.path)
    const params = layer.params(ctx.path, layer.captures(ctx.path))
    for (const { checkPath } of here) checkPath?.(params)
    const methods = new Set(layers.flatMap(({ methods }) => methods))
    const allow = [...methods, 'OPTIONS'].sort().join(', ')
    if (ctx.method !== 'OPTIONS')
      throw new ApiError('method_not_allowed', `${ctx.method} is not possible here: allowed are ${allow}`, {
        headers: { Allow: allow },
      })
    // A browser that asks before a request asks with the request's parameters.
    rejectUnknownParameters(ctx.querystring, parametersOf(here))
    ctx.set('Allow', allow)
    ctx.status = 204
  }
}
