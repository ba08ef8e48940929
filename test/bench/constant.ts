// The `constant` baseline: Koa and its router with a constant response. It measures the upper limit for a service on Koa.
import Router from '@koa/router'
import Koa from 'koa'
import { constantUser } from './constant-user.ts'
import { port } from './environment.ts'

const router = new Router({ prefix: '/v1/users' })
router.get('/:id', ctx => {
  ctx.body = constantUser
})

new Koa().use(router.routes()).use(router.allowedMethods()).listen(port, '127.0.0.1')
