// The OpenAPI document against the service: the tests call every operation, and each response must match the document.
import { createConfig, lintFromString } from '@redocly/openapi-core'
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { statuses } from '../../src/core/api-error.ts'
import { type Answer, createClient } from '../support/http.ts'
import { codesOf, createContract, readContract, visitObjects } from '../support/openapi.ts'
import { createGroup, createUser, newGroup, newPerson } from '../support/records.ts'
import { startService } from '../support/service.ts'

// Small limits that the tests can exceed.
const limits = { bodyBytes: 2000, batchEntries: 3, recordsPerPage: 5, membershipsPerUser: 2, filters: 2 }

const service = await startService({ config: { limits } })
const client = createClient(service.url)
const { text, document, contract, operations } = await readContract(client)
test.after.always(async () => {
  client.close()
  await service.stop()
})

interface RequestOptions {
  /** The values of path parameters such as `{user_id}`. */
  path?: Record<string, string | number>
  /** The query string, with its question mark. */
  query?: string
  headers?: Record<string, string>
  /** A string is sent unchanged, other values as JSON. */
  body?: unknown
}

/** The responses so far, as operation, status and code: `getUser 404 user_not_found`. */
const seen = new Set<string>()

/** Calls an operation and checks the response against the document. */
async function call(t: ExecutionContext, id: string, sent: RequestOptions = {}): Promise<Answer> {
  const described = operations.find(({ operation }) => operation.operationId === id)
  if (described === undefined) throw new Error(`no operation ${id}`)
  const path = described.path.replaceAll(/{(\w+)}/g, (_, name) => String(sent.path?.[name]))
  const { body, query = '' } = sent
  const bytes = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const headers = {
    ...(bytes !== undefined && {
      'content-type': 'application/json',
      'content-length': `${Buffer.byteLength(bytes)}`,
    }),
    ...sent.headers,
  }
  const answer = await client.send(described.method, path + query, headers, bytes)
  contract.check(t, described, answer)
  const isJson = answer.headers['content-type']?.startsWith('application/json') ?? false
  seen.add([id, answer.status, (isJson ? answer.body.meta?.code : undefined) ?? ''].join(' ').trim())
  return answer
}

/** Sends requests that every operation rejects. @param sent a valid request */
async function sendInvalidRequests(
  t: ExecutionContext,
  id: string,
  sent: RequestOptions = {},
): Promise<void> {
  await call(t, id, { ...sent, query: '?colour=red' })
  await call(t, id, { ...sent, query: '?colour=%ff' })
  await call(t, id, { ...sent, headers: { 'if-match': 'without quotes' } })
  await call(t, id, { ...sent, headers: { accept: 'image/png' } })
}

/** Sends requests that every operation with a body rejects. */
async function sendInvalidBodies(
  t: ExecutionContext,
  id: string,
  sent: RequestOptions & { body: object },
): Promise<void> {
  await sendInvalidRequests(t, id, sent)
  const { path = {}, body } = sent
  await call(t, id, { path, body: '{' })
  await call(t, id, { path, body: [] })
  await call(t, id, { path, body: { ...body, colour: 'red' } })
  await call(t, id, { path, body: JSON.stringify(body).padEnd(limits.bodyBytes + 1) })
  await call(t, id, { path, body, headers: { 'content-type': 'text/plain' } })
  await call(t, id, { path, body, headers: { 'content-encoding': 'gzip' } })
}

/** Sends requests that every read rejects, and conditional requests. */
async function sendInvalidReads(t: ExecutionContext, id: string, sent: RequestOptions = {}): Promise<void> {
  await sendInvalidRequests(t, id, sent)
  const { etag = '' } = (await call(t, id, sent)).headers
  t.is((await call(t, id, { ...sent, headers: { 'if-none-match': etag } })).status, 304)
  t.is((await call(t, id, { ...sent, headers: { 'if-match': '"another"' } })).status, 412)
}

const unknownId = { id: 999_999 }
const unknownUser = { user_id: 999_999 }
const unknownGroup = { group_id: 999_999 }
const tooManyRecords = `?records_per_page=${limits.recordsPerPage + 1}`

/** Calls every operation on a resource. @param newFields returns fields that no other record has */
async function callAllOperations(
  t: ExecutionContext,
  Type: string,
  plural: string,
  newFields: () => Record<string, string>,
) {
  const pathOf = (id = 0) => ({ [`${Type.toLowerCase()}_id`]: id })
  const unknownPath = pathOf(999_999)
  const [list, create, get] = [`list${Type}s`, `create${Type}`, `get${Type}`]
  const first = newFields()
  const { body: created } = await call(t, create, { body: first })
  const path = pathOf(created.id)
  const empty = Object.fromEntries(Object.keys(first).map(name => [name, '']))
  const nulls = Object.fromEntries(Object.keys(first).map(name => [name, null]))

  const batch = { [plural]: [newFields(), first, 'nothing'] }
  const outcome = await call(t, create, { body: batch, headers: { 'idempotency-key': Type } })
  t.like(outcome.body.meta, { created: 1, failed: 2 })
  const again = await call(t, create, { body: batch, headers: { 'idempotency-key': Type } })
  t.is(again.headers['idempotent-replayed'], 'true')
  await call(t, create, { body: newFields(), headers: { 'idempotency-key': Type } })
  await call(t, create, { body: {} })
  await call(t, create, { body: empty })
  await call(t, create, { body: first })
  await call(t, create, { body: { [plural]: [] } })
  await call(t, create, { body: { [plural]: [{}, {}, {}, {}] } })
  await sendInvalidBodies(t, create, { body: newFields() })

  await call(t, list, { query: '?id=!1&sort=-id&records_per_page=1' })
  await call(t, list, { query: '?id=abc' })
  await call(t, list, { query: tooManyRecords })
  await sendInvalidReads(t, list)
  await call(t, get, { path: unknownPath })
  await sendInvalidReads(t, get, { path })

  const valid = { path, body: first }
  for (const change of [`replace${Type}`, `update${Type}`]) {
    const { headers } = await call(t, change, valid)
    t.truthy(headers.etag)
    const { body: other } = await call(t, create, { body: newFields() })
    await call(t, change, { path: pathOf(other.id), body: first })
    await call(t, change, { path, body: { ...first, id: 1_000_000 } })
    await call(t, change, { path, body: empty })
    await call(t, change, { path, body: nulls })
    await call(t, change, { path: unknownPath, body: newFields() })
    await call(t, change, { ...valid, headers: { 'if-match': '"another"' } })
    await sendInvalidBodies(t, change, valid)
  }

  const many = { update: `update${Type}s`, remove: `delete${Type}s` }
  const entry = { id: created.id, ...first }
  const changes = [entry, { ...entry, id: 999_999 }, { colour: 'red' }]
  t.like((await call(t, many.update, { body: { [plural]: changes } })).body.meta, { updated: 1, failed: 2 })
  const invalid = [{ ...entry, ...empty }, 'nothing']
  t.like((await call(t, many.update, { body: { [plural]: invalid } })).body.meta, { failed: 2 })
  await call(t, many.update, { body: {} })
  await call(t, many.update, { body: { [plural]: [{}, {}, {}, {}] } })
  await sendInvalidBodies(t, many.update, { body: { [plural]: [entry] } })

  const { body: last } = await call(t, create, { body: newFields() })
  await sendInvalidRequests(t, many.remove, { query: `?id=${last.id}` })
  await call(t, many.remove, { query: '?id[in]=abc' })
  await call(t, many.remove, { query: '?id[in]=1,2,3,4' })
  const removed = await call(t, many.remove, { query: `?id[in]=${last.id},999999` })
  t.like(removed.body.meta, { deleted: 1, failed: 1 })

  const remove = `delete${Type}`
  await sendInvalidRequests(t, remove, { path })
  await call(t, remove, { path, headers: { 'if-match': '"another"' } })
  await call(t, remove, { path })
  await call(t, remove, { path })
}

/** Calls an operation that removes several memberships of a record. @param id the id of a membership that it has */
async function callRemoveMany(
  t: ExecutionContext,
  operation: string,
  path: Record<string, number>,
  unknownPath: Record<string, number>,
  id?: number,
): Promise<void> {
  await sendInvalidRequests(t, operation, { path, query: '?id=999999' })
  await call(t, operation, { path, query: '?id[in]=abc' })
  await call(t, operation, { path, query: '?id[in]=1,2,3,4' })
  await call(t, operation, { path: unknownPath, query: '?id=1' })
  await call(t, operation, { path, query: '?id=1', headers: { 'if-match': '"another"' } })
  const removed = await call(t, operation, {
    path,
    query: `?id[in]=999999${id === undefined ? '' : `,${id}`}`,
  })
  t.like(removed.body.meta, { deleted: id === undefined ? 0 : 1, failed: 1 })
}

test.serial('document: passes the recommended rules of Redocly', async t => {
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: text, absoluteRef: '/openapi.json', config })
  t.deepEqual(
    problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer})`),
    [],
  )
})

test('document: its patterns mean the same in all engines: they have no escape but \\xHH', t => {
  const patterns = new Set<string>()
  visitObjects(document, ({ pattern }) => {
    if (typeof pattern === 'string') patterns.add(pattern)
  })
  t.true(patterns.size >= 5, [...patterns].join())
  for (const pattern of patterns) {
    t.regex(pattern, /^(?:[^\\]|\\x[\da-f]{2})*$/)
    t.notThrows(() => [new RegExp(pattern), new RegExp(pattern, 'u')], pattern)
  }
})

test('document: its examples are valid, also for tools that compile patterns without the flag u', t => {
  const { faultsAt } = createContract(document, false)
  let count = 0
  visitObjects(document, ({ schema, examples }, path) => {
    if (schema === undefined || typeof examples !== 'object' || examples === null) return
    for (const [name, { value }] of Object.entries<{ value?: unknown }>({ ...examples })) {
      t.is(faultsAt([...path, 'schema'], value), undefined, [...path, name].join(' '))
      count++
    }
  })
  for (const { path, method, operation } of operations)
    operation.parameters.forEach(({ schema }, at) => {
      for (const example of schema.examples ?? []) {
        const place = ['paths', path, method.toLowerCase(), 'parameters', String(at), 'schema']
        t.is(faultsAt(place, example), undefined, place.join(' '))
        count++
      }
    })
  t.true(count > 200, String(count))
})

test('document: an operation with query parameters has a fault in one of them as its example', t => {
  for (const { operation } of operations) {
    const names = operation.parameters.flatMap(parameter => (parameter.in === 'query' ? parameter.name : []))
    if (names.length === 0) continue
    const { examples } = operation.responses[400]?.content?.['application/json'] ?? {}
    const [fault] = examples?.invalid_parameter?.value.meta.errors ?? []
    t.true(names.includes(fault?.parameter ?? ''), operation.operationId)
  }
})

test('document: a request of each operation can be sent after an import', t => {
  // Tools that list the versions they know list this one.
  t.is(document.openapi, '3.1.0')
  t.true(document.servers.every(({ url }) => URL.canParse(url)))
  for (const { path, operation } of operations) {
    t.truthy(operation.description, path)
    for (const { name, in: place, schema, explode } of operation.parameters) {
      if (place === 'path') t.true((schema.examples ?? schema.enum).length > 0, name)
      // With a fixed key, each POST but the first one would be 422.
      if (name === 'Idempotency-Key') t.deepEqual(schema.examples, ['{{$guid}}'])
      if (name === 'If-Match') t.is(schema.examples[0], '*')
      // Generators of clients that know no list of types, such as that of orval for zod, take its first one for all.
      t.false(Array.isArray(schema.type), name)
      if (schema.type !== 'array') continue
      const isFilter = name.endsWith('[in]')
      t.is(explode, isFilter, name)
      t.is(schema.uniqueItems, isFilter ? undefined : true, name)
    }
  }
})

test.serial('users and groups: responses match the document', async t => {
  await callAllOperations(t, 'User', 'users', newPerson)
  await callAllOperations(t, 'Group', 'groups', newGroup)
})

test.serial('memberships: responses match the document', async t => {
  const path = { user_id: await createUser(client) }
  const ids: number[] = []
  for (let created = 0; created < limits.membershipsPerUser + 1; created++)
    ids.push(await createGroup(client))
  const [first, second, third] = ids
  const add = 'addUserGroups'

  await call(t, add, { path, body: { id: first } })
  const batch = { path, body: { groups: [{ id: first }, unknownId, 7] }, headers: { 'idempotency-key': 'm' } }
  t.like((await call(t, add, batch)).body.meta, { created: 0, failed: 2 })
  await call(t, add, batch)
  await call(t, add, { ...batch, body: { id: second } })
  await call(t, add, { path, body: {} })
  await call(t, add, { path, body: { id: 'one' } })
  await call(t, add, { path, body: { groups: [] } })
  await call(t, add, { path, body: { groups: [{}, {}, {}, {}] } })
  await call(t, add, { path, body: { id: second } })
  await call(t, add, { path, body: { id: third } })
  await call(t, add, { path, body: unknownId })
  await call(t, add, { path: unknownUser, body: { id: first } })
  await call(t, add, { path, body: { id: first }, headers: { 'if-match': '"another"' } })
  await sendInvalidBodies(t, add, { path, body: { id: first } })

  const one = await call(t, 'getUser', { path, query: '?include=groups' })
  t.is(one.body.groups?.length, 2)
  await call(t, 'listUsers', { query: `?groups[*].id=${first}&include=groups` })
  await call(t, 'listUserGroups', { path, query: '?start_index=1' })
  await call(t, 'listUserGroups', { path, query: '?start_index=-1' })
  await call(t, 'listUserGroups', { path, query: tooManyRecords })
  await call(t, 'listUserGroups', { path: unknownUser })
  await sendInvalidReads(t, 'listUserGroups', { path })

  await callRemoveMany(t, 'removeUserGroups', path, unknownUser, second)
  const member = { path: { ...path, group_id: first ?? 0 } }
  await sendInvalidRequests(t, 'removeUserGroup', member)
  await call(t, 'removeUserGroup', { ...member, headers: { 'if-match': '"another"' } })
  await call(t, 'removeUserGroup', member)
  await call(t, 'removeUserGroup', member)
  await call(t, 'removeUserGroup', { path: { ...unknownUser, group_id: 1 } })
})

test.serial('members: responses match the document', async t => {
  const path = { group_id: await createGroup(client) }
  const id = await createUser(client)
  const full = await createUser(client)
  for (let count = 0; count < limits.membershipsPerUser; count++)
    await client.post(`/v1/groups/${await createGroup(client)}/users`, { id: full })
  const add = 'addGroupUsers'

  await call(t, add, { path, body: { id } })
  const users = [{ id }, unknownId, { id: full }]
  const batch = { path, body: { users }, headers: { 'idempotency-key': 'members' } }
  t.like((await call(t, add, batch)).body.meta, { created: 0, failed: 2 })
  await call(t, add, batch)
  await call(t, add, { ...batch, body: { id } })
  await call(t, add, { path, body: {} })
  await call(t, add, { path, body: { id: 'one' } })
  await call(t, add, { path, body: { users: [] } })
  await call(t, add, { path, body: { users: [{}, {}, {}, {}] } })
  await call(t, add, { path, body: { users: [{}, 7] } })
  await call(t, add, { path, body: { id: full } })
  await call(t, add, { path, body: unknownId })
  await call(t, add, { path: unknownGroup, body: { id } })
  await call(t, add, { path, body: { id }, headers: { 'if-match': '"another"' } })
  await sendInvalidBodies(t, add, { path, body: { id } })

  await callRemoveMany(t, 'removeGroupUsers', { group_id: await createGroup(client) }, unknownGroup)
  const list = 'listGroupUsers'
  const page = await call(t, list, {
    path,
    query: '?include=groups&sort=-id&first_name=Ada&records_per_page=1',
  })
  t.is(page.body.users?.length, 1)
  await call(t, list, { path, query: '?id=abc' })
  await call(t, list, { path, query: tooManyRecords })
  await call(t, list, { path: unknownGroup })
  await sendInvalidReads(t, list, { path })
})

test.serial('changes: responses match the document', async t => {
  const list = 'listChanges'
  await createUser(client)
  const answer = await call(t, list, { query: '?after=0&wait=10&type=user.created&records_per_page=1' })
  t.regex(answer.text, /^{"changes":\[{"id":/)
  await call(t, list, { query: '?after=x' })
  await call(t, list, { query: tooManyRecords })
  await call(t, list, { query: '?after=999999' })
  await call(t, list, { headers: { 'last-event-id': 'x' } })
  // A page that is full does not change.
  await sendInvalidReads(t, list, { query: '?after=0&records_per_page=1' })
})

test.serial('document and page: responses match the document', async t => {
  for (const id of ['getDocument', 'getPage']) await sendInvalidReads(t, id)
  const file = operations.find(({ operation }) => operation.operationId === 'getPageFile')
  const names: string[] = file?.operation.parameters[0]?.schema.enum ?? []
  for (const name of names) await sendInvalidReads(t, 'getPageFile', { path: { file: name } })
  await call(t, 'getPageFile', { path: { file: 'package.json' } })
})

test.serial('common failures: responses match the document', async t => {
  await call(t, 'listUsers', { query: `?${'a'.repeat(9000)}` })
  await call(t, 'listUsers', { headers: { cookie: 'a'.repeat(20_000) } })
  await call(t, 'createUser', { body: newPerson(), headers: { expect: 'the unexpected' } })
})

test.serial('methods: a path has exactly its documented methods, HEAD with GET, and OPTIONS', async t => {
  for (const [path, item] of Object.entries(document.paths)) {
    const documented = operations.filter(described => described.path === path)
    const url = path.replace('{file}', 'page.js').replaceAll(/{\w+}/g, '1')
    const options = await client.send('OPTIONS', url)
    t.is(options.status, 204)
    const allowed = [...documented.map(({ method }) => method), ...('get' in item ? ['HEAD'] : []), 'OPTIONS']
    t.deepEqual(options.headers.allow?.split(', '), allowed.sort(), path)
    const [operation] = documented
    const refused = await client.send('TRACE', url)
    if (operation !== undefined) contract.check(t, operation, refused)
    t.is(refused.headers.allow, options.headers.allow)
    seen.add(`${operation?.operation.operationId} 405 method_not_allowed`)
  }
})

test.serial('internal error: the response matches the document', async t => {
  const database = await mysql.createConnection(service.database)
  await database.query('RENAME TABLE users TO people')
  await database.end()
  t.is((await call(t, 'getUser', { path: unknownUser })).status, 500)
})

/** These codes need a timeout, a race or an outage. Other tests cover them. */
const testedElsewhere = ['request_timeout', 'request_in_progress', 'unavailable']
/** Only an API with callers has these codes: callers.test.ts. */
const onlyWithCallers = ['unauthorized', 'forbidden']

test.serial('coverage: the tests received every documented response', t => {
  const missed = operations.flatMap(({ operation: { operationId, responses } }) =>
    Object.entries(responses)
      .filter(([status]) => status !== 'default')
      .flatMap(([status, response]) => {
        const codes = codesOf(response)
        return (codes.length === 0 ? [''] : codes)
          .filter(code => !testedElsewhere.includes(code))
          .map(code => `${operationId} ${status} ${code}`.trim())
      })
      .filter(response => !seen.has(response)),
  )
  t.deepEqual(missed, [])
})

test.serial('coverage: every error code is documented, and the tests received it', t => {
  const { Failure } = document.components.responses
  const responses = operations.flatMap(({ operation }) => Object.values(operation.responses))
  const documented = new Set([Failure, ...responses].flatMap(codesOf))
  t.deepEqual(
    Object.keys(statuses).filter(code => !documented.has(code)),
    onlyWithCallers,
  )
  const received = new Set([...seen].map(response => response.split(' ')[2]))
  t.deepEqual(
    [...documented].filter(code => !received.has(code) && !testedElsewhere.includes(code)),
    [],
  )
})
