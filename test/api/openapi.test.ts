// The OpenAPI document against the service: the tests call every operation, and each response must match the document. They call
// the operations of each resource and of each relation of the registry.
import { randomUUID } from 'node:crypto'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { capitalize } from '../../src/api/openapi/json-schema.ts'
import { loadConfig } from '../../src/config/config.ts'
import { statuses } from '../../src/core/api-error.ts'
import { resources } from '../../src/model/index.ts'
import { idName, type Relation, type Resource } from '../../src/model/resource.ts'
import { type Answer, createClient } from '../support/http.ts'
import { codesOf, createContract, readContract, visitObjects } from '../support/openapi.ts'
import { createUser, newPerson } from '../support/records.ts'
import { startService } from '../support/service.ts'

// Small limits that the tests can exceed.
const limits = { bodyBytes: 2000, batchEntries: 3, recordsPerPage: 5, membershipsPerUser: 2, filters: 2 }
const allLimits = { ...(await loadConfig()).limits, ...limits }

const service = await startService({ config: { limits } })
const client = createClient(service.url)
const { text, document, contract, operations } = await readContract(client)
test.after.always(async () => {
  client.close()
  await service.stop()
})

/** Values of path parameters such as `{user_id}`. */
type Ids = Readonly<Record<string, string | number>>

interface RequestOptions {
  path?: Ids
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

/** Calls an operation with one body after the other. */
async function sendBodies(t: ExecutionContext, id: string, path: Ids, ...bodies: readonly unknown[]) {
  for (const body of bodies) await call(t, id, { path, body })
}

/** Sends requests that every operation with a body rejects. */
async function sendInvalidBodies(
  t: ExecutionContext,
  id: string,
  sent: RequestOptions & { body: object },
): Promise<void> {
  await sendInvalidRequests(t, id, sent)
  const { path = {}, body } = sent
  const tooLong = JSON.stringify(body).padEnd(limits.bodyBytes + 1)
  await sendBodies(t, id, path, '{', [], { ...body, colour: 'red' }, tooLong)
  await call(t, id, { path, body, headers: { 'content-type': 'text/plain' } })
  await call(t, id, { path, body, headers: { 'content-encoding': 'gzip' } })
}

/** Sends requests that every read rejects, and conditional requests. */
async function sendInvalidReads(t: ExecutionContext, id: string, sent: RequestOptions = {}): Promise<void> {
  await sendInvalidRequests(t, id, sent)
  const { etag = '' } = (await call(t, id, sent)).headers
  t.is((await call(t, id, { ...sent, headers: { 'if-none-match': etag } })).status, 304)
  t.is((await call(t, id, { ...sent, headers: ifAnother })).status, 412)
}

const ifAnother = { 'if-match': '"another"' }
const unknownId = { id: 999_999 }
const tooManyRecords = `?records_per_page=${limits.recordsPerPage + 1}`
/** More than `limits.batchEntries`. */
const tooManyEntries = [{}, {}, {}, {}]

/** Returns fields that no other record has. */
const newFields = ({ fields }: Resource): Record<string, string> =>
  Object.fromEntries(
    Object.entries(fields).map(([name, { maxCodePoints }]) => [name, randomUUID().slice(0, maxCodePoints)]),
  )
const createRecord = (resource: Resource): Promise<number> =>
  client.create(`/v1/${resource.plural}`, newFields(resource))
const pathTo = (resource: Resource, id: number): Ids => ({ [idName(resource)]: id })
const unknownPath = (resource: Resource): Ids => pathTo(resource, 999_999)
const withValue = (fields: object, value: string | null) =>
  Object.fromEntries(Object.keys(fields).map(name => [name, value]))

/** Calls the operation that creates records. @returns the id of a new record, and its fields */
async function callCreate(t: ExecutionContext, resource: Resource) {
  const { singular, plural } = resource
  const create = `create${capitalize(singular)}`
  const fields = newFields(resource)
  const { body: created } = await call(t, create, { body: fields })
  const headers = { 'idempotency-key': create }
  const batch = { body: { [plural]: [newFields(resource), fields, 'nothing'] }, headers }
  t.like((await call(t, create, batch)).body.meta, { created: 1, failed: 2 })
  t.is((await call(t, create, batch)).headers['idempotent-replayed'], 'true')
  await call(t, create, { body: newFields(resource), headers })
  await sendBodies(t, create, {}, {}, withValue(fields, ''), fields)
  await sendBodies(t, create, {}, { [plural]: [] }, { [plural]: tooManyEntries })
  await sendInvalidBodies(t, create, { body: newFields(resource) })
  return { id: created.id, fields }
}

async function callReads(t: ExecutionContext, resource: Resource, id: number): Promise<void> {
  const [list, get] = [`list${capitalize(resource.plural)}`, `get${capitalize(resource.singular)}`]
  await call(t, list, { query: '?id=!1&sort=-id&records_per_page=1' })
  await call(t, list, { query: '?id=abc' })
  await call(t, list, { query: tooManyRecords })
  await sendInvalidReads(t, list)
  await call(t, get, { path: unknownPath(resource) })
  await sendInvalidReads(t, get, { path: pathTo(resource, id) })
}

/** Calls an operation that changes a record. @param fields those of the record */
async function callChange(t: ExecutionContext, verb: string, resource: Resource, id: number, fields: object) {
  const change = `${verb}${capitalize(resource.singular)}`
  const valid = { path: pathTo(resource, id), body: fields }
  t.truthy((await call(t, change, valid)).headers.etag)
  await call(t, change, { path: pathTo(resource, await createRecord(resource)), body: fields })
  const otherId = { ...fields, id: 1_000_000 }
  await sendBodies(t, change, valid.path, otherId, withValue(fields, ''), withValue(fields, null))
  await call(t, change, { path: unknownPath(resource), body: newFields(resource) })
  await call(t, change, { ...valid, headers: ifAnother })
  await sendInvalidBodies(t, change, valid)
}

async function callUpdateMany(t: ExecutionContext, { plural }: Resource, id: number, fields: object) {
  const update = `update${capitalize(plural)}`
  const entry = { id, ...fields }
  const changes = [entry, { ...entry, id: 999_999 }, { colour: 'red' }]
  t.like((await call(t, update, { body: { [plural]: changes } })).body.meta, { updated: 1, failed: 2 })
  const invalid = [{ ...entry, ...withValue(fields, '') }, 'nothing']
  t.like((await call(t, update, { body: { [plural]: invalid } })).body.meta, { failed: 2 })
  await sendBodies(t, update, {}, {}, { [plural]: tooManyEntries })
  await sendInvalidBodies(t, update, { body: { [plural]: [entry] } })
}

/** Calls the operations that delete records. @param id that of a record */
async function callDeletes(t: ExecutionContext, resource: Resource, id: number): Promise<void> {
  const last = await createRecord(resource)
  const removeMany = `delete${capitalize(resource.plural)}`
  await sendInvalidRequests(t, removeMany, { query: `?id=${last}` })
  await call(t, removeMany, { query: '?id[in]=abc' })
  await call(t, removeMany, { query: '?id[in]=1,2,3,4' })
  const removed = await call(t, removeMany, { query: `?id[in]=${last},999999` })
  t.like(removed.body.meta, { deleted: 1, failed: 1 })

  const remove = `delete${capitalize(resource.singular)}`
  const path = pathTo(resource, id)
  await sendInvalidRequests(t, remove, { path })
  await call(t, remove, { path, headers: ifAnother })
  await call(t, remove, { path })
  await call(t, remove, { path })
}

/** Calls every operation on a resource. */
async function callAllOperations(t: ExecutionContext, resource: Resource): Promise<void> {
  const { id = 0, fields } = await callCreate(t, resource)
  await callReads(t, resource, id)
  await callChange(t, 'replace', resource, id, fields)
  await callChange(t, 'update', resource, id, fields)
  await callUpdateMany(t, resource, id, fields)
  await callDeletes(t, resource, id)
}

/**
 * Calls an operation that adds records to another record.
 * @param paths that of the record, and one that does not exist
 * @param name the field of a batch
 * @param id that of a record that can be added
 * @param others further entries of the batch, which fail
 */
async function callAdd(
  t: ExecutionContext,
  add: string,
  [path, unknownPath]: readonly [Ids, Ids],
  name: string,
  id: number | undefined,
  ...others: readonly unknown[]
): Promise<void> {
  const headers = { 'idempotency-key': add }
  await call(t, add, { path, body: { id } })
  const batch = { path, body: { [name]: [{ id }, ...others] }, headers }
  t.like((await call(t, add, batch)).body.meta, { created: 0, failed: others.length })
  await call(t, add, batch)
  await call(t, add, { path, body: { id }, headers })
  await sendBodies(t, add, path, {}, { id: 'one' }, unknownId)
  await sendBodies(t, add, path, { [name]: [] }, { [name]: tooManyEntries })
  await call(t, add, { path: unknownPath, body: { id } })
  await call(t, add, { path, body: { id }, headers: ifAnother })
  await sendInvalidBodies(t, add, { path, body: { id } })
}

/** Calls an operation that removes several memberships of a record. @param id the id of a membership that it has */
async function callRemoveMany(
  t: ExecutionContext,
  operation: string,
  path: Ids,
  unknownPath: Ids,
  id?: number,
): Promise<void> {
  await sendInvalidRequests(t, operation, { path, query: '?id=999999' })
  await call(t, operation, { path, query: '?id[in]=abc' })
  await call(t, operation, { path, query: '?id[in]=1,2,3,4' })
  await call(t, operation, { path: unknownPath, query: '?id=1' })
  await call(t, operation, { path, query: '?id=1', headers: ifAnother })
  const query = `?id[in]=999999${id === undefined ? '' : `,${id}`}`
  const removed = await call(t, operation, { path, query })
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

for (const resource of resources)
  test.serial(`${resource.plural}: responses match the document`, t => callAllOperations(t, resource))

/** Calls the operations on the related records of a record of `resource`. */
async function callMemberships(
  t: ExecutionContext,
  resource: Resource,
  { name, to, maxPerRecord }: Relation,
) {
  const [Type, plural] = [capitalize(resource.singular), capitalize(resource.plural)]
  const [path, unknown] = [pathTo(resource, await createRecord(resource)), unknownPath(resource)]
  const max = maxPerRecord(allLimits)
  const ids = [await createRecord(to)]
  while (ids.length <= max) ids.push(await createRecord(to))
  const [first, second] = ids
  const [add, list] = [`add${Type}${capitalize(name)}`, `list${Type}${capitalize(name)}`]

  await callAdd(t, add, [path, unknown], name, first, unknownId, 7)
  // The last one is more than `maxPerRecord`.
  for (const id of ids.slice(1)) await call(t, add, { path, body: { id } })

  const one = await call(t, `get${Type}`, { path, query: `?include=${name}` })
  t.is(one.text.match(/"id":/g)?.length, 1 + max)
  await call(t, `list${plural}`, { query: `?${name}[*].id=${first}&include=${name}` })
  await call(t, list, { path, query: '?start_index=1' })
  await call(t, list, { path, query: '?start_index=-1' })
  // A page can have all related records.
  await call(t, list, { path, query: `?records_per_page=${Math.max(max, limits.recordsPerPage) + 1}` })
  await call(t, list, { path: unknown })
  await sendInvalidReads(t, list, { path })

  await callRemoveMany(t, `remove${Type}${capitalize(name)}`, path, unknown, second)
  const remove = `remove${Type}${capitalize(to.singular)}`
  const member = { path: { ...path, ...pathTo(to, first ?? 0) } }
  await sendInvalidRequests(t, remove, member)
  await call(t, remove, { ...member, headers: ifAnother })
  await call(t, remove, member)
  await call(t, remove, member)
  await call(t, remove, { path: { ...unknown, ...pathTo(to, 1) } })
}

/** Calls the operations on the members of a record of `to`. */
async function callMembers(t: ExecutionContext, resource: Resource, { name, to, maxPerRecord }: Relation) {
  const { plural } = resource
  const members = `${capitalize(to.singular)}${capitalize(plural)}`
  const [path, unknown] = [pathTo(to, await createRecord(to)), unknownPath(to)]
  const [id, full] = [await createRecord(resource), await createRecord(resource)]
  for (let count = 0; count < maxPerRecord(allLimits); count++)
    await client.post(`/v1/${to.plural}/${await createRecord(to)}/${plural}`, { id: full })
  const add = `add${members}`

  await callAdd(t, add, [path, unknown], plural, id, unknownId, { id: full })
  await sendBodies(t, add, path, { [plural]: [{}, 7] }, { id: full })

  await callRemoveMany(t, `remove${members}`, pathTo(to, await createRecord(to)), unknown)
  const list = `list${members}`
  const page = await call(t, list, { path, query: `?include=${name}&sort=-id&id=${id}&records_per_page=1` })
  t.like(page.body.meta, { total_records: 1, message: '1 of 1 records' })
  await call(t, list, { path, query: '?id=abc' })
  await call(t, list, { path, query: tooManyRecords })
  await call(t, list, { path: unknown })
  await sendInvalidReads(t, list, { path })
}

for (const resource of resources)
  for (const relation of resource.relations) {
    test.serial(`${relation.name} of ${resource.plural}: responses match the document`, t =>
      callMemberships(t, resource, relation),
    )
    test.serial(`${resource.plural} of ${relation.name}: responses match the document`, t =>
      callMembers(t, resource, relation),
    )
  }

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
  t.is((await call(t, 'getUser', { path: { user_id: 1 } })).status, 500)
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
    'no operation documents these codes',
  )
  const received = new Set([...seen].map(response => response.split(' ')[2]))
  t.deepEqual(
    [...documented].filter(code => !received.has(code) && !testedElsewhere.includes(code)),
    [],
    'no request of these tests gets these documented codes',
  )
})
