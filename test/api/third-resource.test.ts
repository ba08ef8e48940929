// A third resource that only this test defines: roles, related to users. The whole API works on it.
import http from 'node:http'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import test, { type ExecutionContext } from 'ava'
import { createApp } from '../../src/api/app.ts'
import { createCache } from '../../src/cache/cache.ts'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createRecount } from '../../src/database/counting/recount.ts'
import { createFeed } from '../../src/database/feed/feed.ts'
import { createIdempotencyKeys } from '../../src/database/idempotency-keys.ts'
import { exactCollation } from '../../src/database/migrations/collation.ts'
import { addSearch } from '../../src/database/migrations/search-columns.ts'
import { resources as registry } from '../../src/model/index.ts'
import type { RelatedResource, Resource } from '../../src/model/resource.ts'
import { users } from '../../src/model/users.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'
import { type Answer, createClient } from '../support/http.ts'
import { openDatabase } from '../support/open-database.ts'
import { readContract } from '../support/openapi.ts'
import { listenOnFreePort } from '../support/ports.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'

const MAX_ROLES = 3
const table = 'user_roles'

const roles: RelatedResource = {
  singular: 'role',
  plural: 'roles',
  description: 'What a user may do.',
  fields: {
    name: { maxCodePoints: 255, required: 'always', example: 'Editor' },
    description: { maxCodePoints: 40, required: false, example: 'Changes texts' },
  },
  unique: ['name'],
  relations: [],
  generation: 'role_generation',
}
const people: Resource = {
  ...users,
  relations: [
    ...users.relations,
    {
      name: 'roles',
      to: roles,
      table,
      fromKey: 'user_id',
      toKey: 'role_id',
      maxPerRecord: () => MAX_ROLES,
    },
  ],
}

const config = await loadConfig()
const log = createLog('warn', 'test')
const database = openDatabase({ url: await createTestDatabase() }, { recordsEvents: true })
const { knex } = database
const options = `ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE ${exactCollation}`
await knex.raw(`CREATE TABLE roles (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(255) NOT NULL,
  description VARCHAR(40) NULL,
  version BIGINT UNSIGNED NOT NULL,
  UNIQUE KEY roles_name (name)
) ${options}`)
await addSearch(knex, 'roles', ['name', 'description'])
await knex.raw(`CREATE TABLE user_roles (
  user_id BIGINT UNSIGNED NOT NULL,
  role_id BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (user_id, role_id),
  KEY user_roles_role_id_user_id (role_id, user_id),
  FOREIGN KEY (user_id) REFERENCES users (id),
  FOREIGN KEY (role_id) REFERENCES roles (id)
) ${options}`)
await knex.raw(
  'CREATE TABLE role_generation (id TINYINT UNSIGNED PRIMARY KEY, token BIGINT UNSIGNED NOT NULL)',
)
await knex('role_generation').insert({ id: 1, token: 1 })

const redis = process.env.TEST_REDIS_URL
const cache = createCache({ ...config.cache, url: redis === undefined ? null : [redis] }, log)
const resources = [people, ...registry.filter(one => one !== users), roles]
const app = createApp({
  limits: config.limits,
  database,
  cache,
  idempotencyKeys: createIdempotencyKeys(database, 60),
  feed: createFeed(database),
  log,
  isKnownHost: () => true,
  resources,
})
// Without a keep-alive timeout: the client could send on a connection that the server is closing.
const server = http.createServer({ keepAliveTimeout: 0 }, app)
const client = createClient(`http://127.0.0.1:${await listenOnFreePort(server)}`)
const { text, contract, operations } = await readContract(client)
test.after.always(async () => {
  client.close()
  server.close()
  cache.close()
  await database.close()
})

/** The operations that were called. */
const called = new Set<string>()

/** Sends a request and checks the response against the document. */
async function call(
  t: ExecutionContext,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const template = path.replace(/\?.*$/, '').split('/')
  const described = operations.find(operation => {
    const parts = operation.path.split('/')
    const matches = parts.every((part, index) => part.startsWith('{') || part === template[index])
    return operation.method === method && parts.length === template.length && matches
  })
  if (described === undefined) throw new Error(`the document has no ${method} ${path}`)
  called.add(described.operation.operationId)
  const bytes = body === undefined ? undefined : JSON.stringify(body)
  const content = bytes && {
    'content-type': 'application/json',
    'content-length': `${Buffer.byteLength(bytes)}`,
  }
  const answer = await client.send(method, encodeURI(path), { ...content, ...headers }, bytes)
  contract.check(t, described, answer)
  return answer
}

/** Sends a GET and returns the body. */
async function read(t: ExecutionContext, path: string) {
  const answer = await call(t, 'GET', path)
  expectOk(t, answer)
  return answer.body
}

/** Asserts the ids and the total of a collection. */
async function expectIds(t: ExecutionContext, path: string, ids: readonly (number | undefined)[]) {
  const body = await read(t, path)
  const records = body.roles ?? body.users ?? []
  t.deepEqual(
    records.map(({ id }) => id),
    [...ids],
    path,
  )
  t.is(body.meta.total_records, ids.length, path)
}

const created = async (t: ExecutionContext, path: string, fields: object): Promise<number> => {
  const answer = await call(t, 'POST', path, fields)
  expectOk(t, answer)
  return answer.body.id ?? 0
}

test.serial('third resource: the document passes the recommended rules of Redocly', async t => {
  const rules = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: text, absoluteRef: '/openapi.json', config: rules })
  t.deepEqual(
    problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer})`),
    [],
  )
})

test.serial('third resource: records are created, read, changed and deleted', async t => {
  const admin = await call(t, 'POST', '/v1/roles', { name: 'Admin', description: 'Everything' })
  const { id } = admin.body
  const path = `/v1/roles/${id}`
  t.is(admin.headers.location, path)
  const { meta: _, ...fields } = admin.body
  t.is(JSON.stringify(fields), JSON.stringify({ id, name: 'Admin', description: 'Everything' }))
  t.is((await call(t, 'GET', path)).headers.etag, admin.headers.etag)
  const unmodified = await call(t, 'GET', path, undefined, { 'if-none-match': String(admin.headers.etag) })
  t.is(unmodified.status, 304)

  // An optional field can be missing or null on creation, and can be removed.
  for (const body of [{ name: 'None' }, { name: 'Null', description: null }]) {
    const answer = await call(t, 'POST', '/v1/roles', body)
    expectOk(t, answer)
    t.false('description' in answer.body)
  }
  t.false('description' in (await call(t, 'PATCH', path, { description: null })).body)
  t.is((await call(t, 'PATCH', path, { description: 'Again' })).body.description, 'Again')
  t.false('description' in (await call(t, 'PUT', path, { name: 'Admin' })).body)
  t.false('description' in (await read(t, path)))

  expectFaults(t, await call(t, 'POST', '/v1/roles', { description: 'x'.repeat(41) }), {
    name: 'missing_field',
    description: 'invalid_field',
  })
  expectFaults(t, await call(t, 'PATCH', path, { name: null }), { name: 'missing_field' })
  expectError(t, await call(t, 'POST', '/v1/roles', { name: 'None' }), 409, 'role_exists')
  expectError(t, await call(t, 'PATCH', path, { name: 'None' }), 409, 'role_exists')
  const stale = { 'if-match': String(admin.headers.etag) }
  expectError(t, await call(t, 'DELETE', path, undefined, stale), 412, 'precondition_failed')
  expectOk(t, await call(t, 'DELETE', path))
  expectError(t, await call(t, 'GET', path), 404, 'role_not_found')
})

test.serial('third resource: a batch reports each entry, and a key replays it', async t => {
  const body = {
    roles: [{ name: 'One' }, { name: 'One', description: 'x' }, { name: 'Two', description: '' }, 7],
  }
  const key = { 'idempotency-key': 'roles' }
  const batch = await call(t, 'POST', '/v1/roles', body, key)
  t.like(batch.body.meta, { created: 1, failed: 3 })
  t.deepEqual(
    batch.body.roles?.map(({ meta, description }) => [meta.code, description]),
    [
      [undefined, undefined],
      ['role_exists', 'x'],
      ['invalid_field', undefined],
      ['invalid_body', undefined],
    ],
  )
  const again = await call(t, 'POST', '/v1/roles', body, key)
  t.is(again.text, batch.text)
  t.is(again.headers['idempotent-replayed'], 'true')
  const { roles: all = [] } = await read(t, '/v1/roles')
  for (const { id } of all) expectOk(t, await call(t, 'DELETE', `/v1/roles/${id}`))
  await expectIds(t, '/v1/roles', [])
})

/** Two users, two groups and four roles: Ada has two roles and a group, Alan has one role and two groups. */
async function populate(t: ExecutionContext) {
  const ada = await created(t, '/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
  const alan = await created(t, '/v1/users', { first_name: 'Alan', last_name: 'Turing' })
  const ids: number[] = []
  for (const fields of [
    { name: 'reader' },
    { name: 'writer', description: 'b' },
    { name: 'owner', description: 'a' },
    { name: 'guest' },
  ])
    ids.push(await created(t, '/v1/roles', fields))
  const [reader = 0, writer = 0, owner = 0, guest = 0] = ids
  const red = await created(t, '/v1/groups', { name: 'red' })
  const blue = await created(t, '/v1/groups', { name: 'blue' })
  const batch = { roles: [{ id: writer }, { id: reader }, { id: 999_999 }] }
  const added = await call(t, 'POST', `/v1/users/${ada}/roles`, batch)
  t.like(added.body.meta, { created: 2, failed: 1 })
  t.is(added.body.roles?.[2]?.meta.code, 'role_not_found')
  expectOk(t, await call(t, 'POST', `/v1/users/${alan}/roles`, { id: writer }))
  expectOk(t, await call(t, 'POST', `/v1/users/${ada}/groups`, { id: red }))
  expectOk(t, await call(t, 'POST', `/v1/users/${alan}/groups`, { groups: [{ id: red }, { id: blue }] }))
  return { ada, alan, reader, writer, owner, guest, red, blue }
}

type World = Awaited<ReturnType<typeof populate>>

const withBoth = (user: number) => `/v1/users/${user}?include=roles,groups`

async function expectFilters(t: ExecutionContext, { ada, alan, reader, writer, owner, guest }: World) {
  await expectIds(t, '/v1/roles?description[exists]=false', [reader, guest])
  await expectIds(t, '/v1/roles?description=!a', [reader, writer, guest])
  await expectIds(t, '/v1/roles?name[prefix]=w', [writer])
  await expectIds(t, '/v1/roles?search=WRITE', [writer])
  await expectIds(t, '/v1/roles?sort=description,-name', [reader, guest, owner, writer])
  const page = await read(t, '/v1/roles?start_index=1&records_per_page=2')
  t.like(page.meta, { total_records: 4, start_index: 1 })
  t.deepEqual(
    page.roles?.map(({ id }) => id),
    [writer, owner],
  )

  // Related filters.
  await expectIds(t, '/v1/users?roles[*].name=writer', [ada, alan])
  await expectIds(t, '/v1/users?roles[*].name=!reader', [alan])
  await expectIds(t, `/v1/users?roles[*].id=${reader}`, [ada])
  await expectIds(t, '/v1/users?roles[*].description[prefix]=b', [ada, alan])
  await expectIds(t, '/v1/users?roles[*].name=writer&groups[*].name=blue', [alan])
  await expectIds(t, '/v1/users?groups[*].name=red&roles[*].id=!999999', [ada, alan])
}

async function expectIncludes(t: ExecutionContext, { ada, reader, writer, red }: World) {
  const inRoles = [
    { id: reader, name: 'reader' },
    { id: writer, name: 'writer', description: 'b' },
  ]
  const inGroups = [{ id: red, name: 'red' }]
  const both = withBoth(ada)
  for (const path of [both, both]) t.like(await read(t, path), { roles: inRoles, groups: inGroups })
  const onlyRoles = await read(t, `/v1/users/${ada}?include=roles`)
  t.is(JSON.stringify(onlyRoles.roles), JSON.stringify(inRoles))
  t.false('groups' in onlyRoles)
  t.false('roles' in (await read(t, `/v1/users/${ada}?include=groups`)))
  const list = await read(t, '/v1/users?include=groups,roles')
  t.deepEqual(
    list.users?.map(({ groups, roles }) => [groups?.length, roles?.length]),
    [
      [1, 2],
      [2, 1],
    ],
  )
  for (const path of [
    '/v1/roles?include=users',
    '/v1/users?include=colours',
    '/v1/users?include=roles,roles',
  ])
    expectError(t, await call(t, 'GET', path), 400, 'invalid_parameter')
  expectFaults(t, await call(t, 'PATCH', `/v1/users/${ada}`, { roles: [] }), { roles: 'invalid_field' })
}

/** Each change of what is included changes the ETag and the includes. */
async function expectEtags(t: ExecutionContext, { ada, reader, writer, owner, red }: World) {
  const both = withBoth(ada)
  let etag = String((await call(t, 'GET', both)).headers.etag)
  const changes: [method: string, path: string, body?: unknown][] = [
    ['PATCH', `/v1/roles/${writer}`, { description: null }],
    ['PATCH', `/v1/groups/${red}`, { name: 'rouge' }],
    ['POST', `/v1/users/${ada}/roles`, { id: owner }],
    ['DELETE', `/v1/users/${ada}/roles/${reader}`],
    ['DELETE', `/v1/groups/${red}`],
    ['DELETE', `/v1/roles/${owner}`],
  ]
  for (const [method, path, body] of changes) {
    t.is((await call(t, 'GET', both, undefined, { 'if-none-match': etag })).status, 304)
    expectOk(t, await call(t, method, path, body))
    const changed = await call(t, 'GET', both, undefined, { 'if-none-match': etag })
    t.is(changed.status, 200, `${method} ${path}`)
    etag = String(changed.headers.etag)
  }
  t.like(await read(t, both), { roles: [{ id: writer, name: 'writer' }], groups: [] })
  t.like(await read(t, `/v1/users/${ada}/roles`), { roles: [{ id: writer }], meta: { total_records: 1 } })
}

/** Each relation has its own limit. @returns the ids of further roles, of which Ada has as many as fit */
async function expectLimits(t: ExecutionContext, { ada, guest, blue }: World): Promise<number[]> {
  const more: number[] = []
  for (const name of ['a', 'b', 'c']) more.push(await created(t, '/v1/roles', { name }))
  const added = await call(t, 'POST', `/v1/users/${ada}/roles`, { roles: more.map(id => ({ id })) })
  t.deepEqual(
    added.body.roles?.map(({ meta }) => meta.code),
    [undefined, undefined, 'limit_exceeded'],
  )
  expectOk(t, await call(t, 'POST', `/v1/users/${ada}/groups`, { id: blue }))
  const absent = `/v1/users/${ada}/roles/${guest}`
  expectError(t, await call(t, 'DELETE', absent), 404, 'membership_not_found')
  return more
}

/** The other side lists and adds the same memberships. */
async function expectMembers(t: ExecutionContext, { ada, alan, writer, guest, red, blue }: World) {
  await expectIds(t, `/v1/roles/${writer}/users`, [ada, alan])
  await expectIds(t, `/v1/roles/${writer}/users?sort=-id&groups[*].id=${red}`, [])
  const joining = { users: [{ id: alan }, { id: ada }, { id: 999_999 }] }
  const joined = await call(t, 'POST', `/v1/roles/${guest}/users`, joining)
  t.deepEqual(
    joined.body.users?.map(({ meta }) => meta.code),
    [undefined, 'limit_exceeded', 'user_not_found'],
  )
  await expectIds(t, `/v1/users?roles[*].id=${guest}`, [alan])
  t.like(await read(t, `/v1/roles/${guest}/users?include=roles`), {
    users: [{ id: alan, roles: [{ id: writer }, { id: guest }] }],
    meta: { total_records: 1 },
  })
  expectError(t, await call(t, 'POST', '/v1/roles/999999/users', { id: ada }), 404, 'role_not_found')
  await expectIds(t, `/v1/groups/${blue}/users?include=roles,groups`, [ada, alan])
}

/** Totals are exact after records with memberships were deleted. @param more the ids of further roles */
async function expectTotals(t: ExecutionContext, world: World, more: readonly number[]) {
  const { ada, alan, reader, writer, guest } = world
  expectOk(t, await call(t, 'DELETE', `/v1/users/${ada}`))
  await expectIds(t, `/v1/users?roles[*].id=${writer}`, [alan])
  await expectIds(t, `/v1/users?roles[*].id=!${writer}`, [])
  await expectIds(t, `/v1/users?roles[*].id=${more[0]}`, [])
  expectOk(t, await call(t, 'DELETE', `/v1/roles/${writer}`))
  await expectIds(t, '/v1/users?roles[*].name=!writer', [alan])
  await expectIds(t, '/v1/roles?sort=name', [...more, guest, reader])
  t.deepEqual(await createRecount(database, resources).find(), [])
}

test.serial('third resource: filters, sort, includes, memberships, totals and ETags', async t => {
  const world = await populate(t)
  await expectFilters(t, world)
  await expectIncludes(t, world)
  await expectEtags(t, world)
  const more = await expectLimits(t, world)
  await expectMembers(t, world)
  await expectTotals(t, world, more)
})

test.serial('third resource: no write of a user waits for a row that users share', async t => {
  const role = await created(t, '/v1/roles', { name: 'shared' })
  const holder = await knex.transaction()
  await holder('role_generation').forUpdate()
  await holder('group_generation').forUpdate()
  const tokens = () => holder('role_generation').union(holder('group_generation').select('*'))
  const before = await tokens()
  const user = await created(t, '/v1/users', { first_name: 'Not', last_name: 'waiting' })
  expectOk(t, await call(t, 'PATCH', `/v1/users/${user}`, { last_name: 'held' }))
  expectOk(t, await call(t, 'POST', `/v1/users/${user}/roles`, { id: role }))
  expectOk(t, await call(t, 'DELETE', `/v1/users/${user}/roles/${role}`))
  expectOk(t, await call(t, 'DELETE', `/v1/users/${user}`))
  t.deepEqual(await tokens(), before)
  await holder.rollback()
})

test.serial('third resource: several records and memberships are changed and deleted at once', async t => {
  const user = await call(t, 'POST', '/v1/users', { first_name: 'Many', last_name: 'Roles' })
  const made = await call(t, 'POST', '/v1/roles', { roles: [{ name: 'Many 1' }, { name: 'Many 2' }] })
  const ada = user.body.id
  const [reader, writer] = (made.body.roles ?? []).map(({ id }) => id)
  const patched = await call(t, 'PATCH', '/v1/roles', { roles: [{ id: reader, name: 'Proof reader' }] })
  t.is(patched.body.meta.updated, 1, patched.text)
  for (const path of [
    `/v1/users/${ada}/roles?id[in]=${reader}`,
    `/v1/roles/${writer}/users?id[in]=${ada}`,
    `/v1/roles?id[in]=${reader},${writer}`,
  ])
    expectOk(t, await call(t, 'DELETE', path))
})

test.serial('third resource: the change feed has its events, and selects them', async t => {
  const latest = await read(t, '/v1/changes?after=latest')
  const next = String(latest.meta.links?.next)
  const user = await created(t, '/v1/users', { first_name: 'Followed', last_name: 'Roles' })
  const role = await created(t, '/v1/roles', { name: 'Followed' })
  expectOk(t, await call(t, 'PATCH', `/v1/roles/${role}`, { description: 'Changed' }))
  expectOk(t, await call(t, 'POST', `/v1/roles/${role}/users`, { id: user }))
  expectOk(t, await call(t, 'DELETE', `/v1/users/${user}/roles/${role}`))
  expectOk(t, await call(t, 'DELETE', `/v1/roles/${role}`))

  const eventsOf = async (path: string): Promise<unknown[]> => {
    const { changes } = JSON.parse((await call(t, 'GET', path)).text)
    return changes.map((change: Record<string, unknown>) => [change.type, change.user_id, change.role_id])
  }
  const ofRole = [
    ['role.created', undefined, role],
    ['role.updated', undefined, role],
    ['membership.created', user, role],
    ['membership.deleted', user, role],
    ['role.deleted', undefined, role],
  ]
  t.deepEqual(await eventsOf(next), [['user.created', user, undefined], ...ofRole])
  t.deepEqual(await eventsOf(`${next}&role_id=${role}`), ofRole)
  t.deepEqual(await eventsOf(`${next}&type=role.updated,role.deleted`), [ofRole[1], ofRole[4]])
})

test.serial('third resource: every operation on it is described and was called', t => {
  const own = operations.filter(({ path }) => path.includes('/roles'))
  t.is(own.length, 15)
  t.true(own.some(({ path }) => path === '/v1/users/{user_id}/roles/{role_id}'))
  t.true(own.some(({ path }) => path === '/v1/roles/{role_id}/users'))
  const missed = own.map(({ operation }) => operation.operationId).filter(id => !called.has(id))
  t.deepEqual(missed, [])
})
