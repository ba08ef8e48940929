// The `constant` baseline: Koa and its router with a constant response, as long as that of a user with groups. It
// measures the upper limit for a service on Koa.
import Router from '@koa/router'
import Koa from 'koa'
import { port } from './environment.ts'

const body = {
  id: 500,
  first_name: 'Given17',
  last_name: 'Family00000500',
  groups: [
    { id: 7, name: 'Division 7' },
    { id: 29, name: 'Team 000019' },
    { id: 30, name: 'Team 000020' },
  ],
  meta: { status: 200 },
}

const router = new Router({ prefix: '/v1/users' })
router.get('/:id', ctx => {
  ctx.body = body
})

new Koa().use(router.routes()).use(router.allowedMethods()).listen(port, '127.0.0.1')
