// Requests that no operation answers: OPTIONS, methods and paths that there are none for.
import type { Router } from '@koa/router'
import type { Middleware } from 'koa'
import { ApiError } from './errors.ts'

/** The methods that a path has, OPTIONS among them; empty where there is no such path. */
function methodsOf(routers: readonly Router[], path: string): string[] {
  const methods = routers.flatMap(router => router.match(path, '').path).flatMap(layer => layer.methods)
  return methods.length === 0 ? [] : [...new Set(methods), 'OPTIONS'].sort()
}

function noRoute(routers: readonly Router[], path: string): ApiError {
  const versioned = `/v1${path.startsWith('/') ? path : `/${path}`}`
  const hint = path === '/v1' || path.startsWith('/v1/') ? '' : ': every path begins with /v1'
  const meant =
    hint !== '' && methodsOf(routers, versioned).length > 0 ? `, this one may be ${versioned}` : ''
  return new ApiError('route_not_found', `there is nothing at ${path}${hint}${meant}`)
}

export function createUnrouted(routers: readonly Router[]): Middleware {
  return ctx => {
    const methods = methodsOf(routers, ctx.path)
    if (methods.length === 0) throw noRoute(routers, ctx.path)
    const allow = methods.join(', ')
    if (ctx.method !== 'OPTIONS')
      throw new ApiError('method_not_allowed', `${ctx.method} is not possible here: allowed are ${allow}`, {
        headers: { Allow: allow },
      })
    ctx.set('Allow', allow)
    ctx.status = 204
  }
}
