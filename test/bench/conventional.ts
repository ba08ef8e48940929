// The `conventional` baseline: the service in a common style, with Koa, its router and body parser, the Knex query
// builder and ioredis.
import Router from '@koa/router'
import { Redis } from 'ioredis'
import createKnex from 'knex'
import Koa from 'koa'
import bodyParser from 'koa-bodyparser'
import { databaseUrl, port, redisAddress } from './environment.ts'

interface User {
  id: number
  first_name: string
  last_name: string
}
interface Membership {
  user_id: number
  id: number
  name: string
}

const TTL_SECONDS = 300
const knex = createKnex({ client: 'mysql2', connection: { uri: databaseUrl }, pool: { min: 2, max: 10 } })
const redis = new Redis(redisAddress)

const selectUsers = () => knex<User>('users').select('id', 'first_name', 'last_name')
const selectGroups = () =>
  knex('memberships').join('groups', 'groups.id', 'memberships.group_id').orderBy('groups.id')

async function groupsOf(id: number) {
  const key = `users:${id}:groups`
  const cached = await redis.get(key)
  if (cached) return JSON.parse(cached)
  const groups = await selectGroups().where('user_id', id).select('groups.id', 'groups.name')
  await redis.set(key, JSON.stringify(groups), 'EX', TTL_SECONDS)
  return groups
}

const router = new Router({ prefix: '/v1/users' })

router.get('/', async ctx => {
  const size = Number(ctx.query.records_per_page ?? 100)
  const users = await selectUsers().orderBy('id').limit(size)
  const counted = await knex('users').count({ total: '*' }).first()
  const memberships: Membership[] = await selectGroups()
    .whereIn(
      'user_id',
      users.map(user => user.id),
    )
    .select('user_id', 'groups.id', 'groups.name')
  ctx.body = {
    users: users.map(user => ({
      ...user,
      groups: memberships.filter(({ user_id }) => user_id === user.id).map(({ id, name }) => ({ id, name })),
      meta: { status: 200 },
    })),
    meta: { status: 200, total_records: counted?.total, start_index: 0, records_per_page: size },
  }
})

router.get('/:id', async ctx => {
  const id = Number(ctx.params.id)
  const user = await selectUsers().where({ id }).first()
  if (!user) return ctx.throw(404, 'user not found')
  const groups = ctx.query.include === 'groups' ? { groups: await groupsOf(id) } : {}
  ctx.body = { ...user, ...groups, meta: { status: 200 } }
})

router.post('/', async ctx => {
  const { first_name, last_name } = Object(ctx.request.body)
  if (!first_name || !last_name) return ctx.throw(400, 'first_name and last_name are required')
  const [id] = await knex('users').insert({ first_name, last_name, version: 0 })
  ctx.body = { id, first_name, last_name, meta: { status: 200 } }
})

router.patch('/:id', async ctx => {
  const id = Number(ctx.params.id)
  const { first_name, last_name } = Object(ctx.request.body)
  await knex('users').where({ id }).update({ first_name, last_name })
  const user = await selectUsers().where({ id }).first()
  if (!user) return ctx.throw(404, 'user not found')
  ctx.body = { ...user, meta: { status: 200 } }
})

new Koa()
  .use(async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      const { code, status, message } = Object(error)
      ctx.status = code === 'ER_DUP_ENTRY' ? 409 : (status ?? 500)
      ctx.body = {
        meta: { status: ctx.status, message: ctx.status === 500 ? 'internal error' : message },
      }
      if (ctx.status === 500) console.error(error)
    }
  })
  .use(bodyParser())
  .use(router.routes())
  .use(router.allowedMethods())
  .listen(port, '127.0.0.1')
