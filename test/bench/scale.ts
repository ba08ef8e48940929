// Measures how response times grow with the number of rows: the service with a thousand users and with a million, one
// request at a time.
import assert from 'node:assert/strict'
import { createClient } from '../support/http.ts'
import type { Request } from './comparisons.ts'
import { measureInterleaved, type Rounds } from './interleaved.ts'
import { addEveryone, divisionName, everyoneId, firstName, lastName, sizes, teamName } from './population.ts'
import { type RunningServer, startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, formatRatio, markdownTable } from './table.ts'

const SMALL = 1000

/** A running service and the number of users in its database. */
interface PopulatedService {
  readonly users: number
  readonly server: RunningServer
}

interface RequestKind extends Request {
  readonly title: string
  /** Expected `total_records` of a collection. */
  readonly total?: number
}

/** Returns the measured requests. The pages of both databases have the same number of records. */
function requestKinds(users: number): RequestKind[] {
  const { perFirstName, perTeam, perDivision } = sizes(users)
  const collection = (title: string, total: number, query: Record<string, string>, path = '/v1/users') => ({
    title,
    method: 'GET' as const,
    path: `${path}?${new URLSearchParams(query)}`,
    total,
  })
  const members = (title: string, query: Record<string, string>) =>
    collection(`group of all users: ${title}`, users, query, `/v1/groups/${everyoneId(users)}/users`)
  const filtered = (title: string, field: string, value: string, matches: number) => [
    collection(`\`=\` ${title}`, matches, { records_per_page: '20', [field]: value }),
    collection(`\`=!\` ${title}`, users - matches, { records_per_page: '20', [field]: `!${value}` }),
  ]
  return [
    collection('first page of 100', users, {}),
    collection('page of 100 at 90 % of all users', users, { start_index: String(users * 0.9) }),
    collection('page of 100 after the middle id', users / 2, { 'id[gt]': String(users / 2) }),
    ...filtered('first name of 1 in 50 users', 'first_name', firstName(7), perFirstName),
    ...filtered('last name of one user', 'last_name', lastName(500), 1),
    ...filtered('name of a group of 50 users', 'groups[*].name', teamName(7), perTeam),
    ...filtered('name of a group of 1 in 10 users', 'groups[*].name', divisionName(7), perDivision),
    collection('two groups of 1 in 10 users each', 2 * perDivision, {
      records_per_page: '20',
      'groups[*].name[in]': `${divisionName(7)},${divisionName(8)}`,
    }),
    collection('search that finds 999 users', 999, { search: 'family00000', records_per_page: '20' }),
    collection('search that finds 1 in 50 users', perFirstName, {
      search: 'given07',
      records_per_page: '20',
    }),
    collection('sorted by first_name', users, { records_per_page: '20', sort: 'first_name' }),
    collection('sorted by last_name', users, { records_per_page: '20', sort: 'last_name' }),
    collection('sorted by last_name, descending', users, { records_per_page: '20', sort: '-last_name' }),
    collection('sorted by first_name, then last_name', users, {
      records_per_page: '20',
      sort: 'first_name,last_name',
    }),
    collection('last page, sorted by first_name, then last_name', users, {
      records_per_page: '20',
      sort: 'first_name,last_name',
      start_index: String(users - 20),
    }),
    members('first page of 100', {}),
    members('page of 100 in the middle', { start_index: String(users / 2) }),
    members('page of 100 at 90 %', { start_index: String(users * 0.9) }),
    members('last page of 100', { start_index: String(users - 100) }),
    members('sorted by last_name', { records_per_page: '20', sort: 'last_name' }),
    { title: 'one user', method: 'GET', path: '/v1/users/{id}' },
    { title: 'one user with groups', method: 'GET', path: '/v1/users/{id}?include=groups' },
    // The writes come last: they change totals.
    { title: 'PATCH a user', method: 'PATCH', path: '/v1/users/{id}', body: '{"last_name":"{unique}"}' },
    {
      title: 'POST a user',
      method: 'POST',
      path: '/v1/users',
      body: '{"first_name":"{unique}","last_name":"New"}',
    },
  ]
}

/** @throws AssertionError if the collection's total is not exact */
async function assertTotal({ server }: PopulatedService, { title, path, total }: RequestKind): Promise<void> {
  if (total === undefined) return
  const client = createClient(server.url)
  const counted = await client.count(path).finally(client.close)
  assert.equal(counted, total, `${title}: wrong total for ${path} at ${server.url}`)
}

/** Returns one table row for each kind of request. */
async function measureKinds(
  [small, large]: readonly [PopulatedService, PopulatedService],
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string[][]> {
  const tableRows: string[][] = []
  const smallKinds = requestKinds(small.users)
  for (const [index, largeKind] of requestKinds(large.users).entries()) {
    const pairs = [
      { ...small, kind: smallKinds[index] ?? largeKind },
      { ...large, kind: largeKind },
    ]
    for (const { kind, ...service } of pairs) await assertTotal(service, kind)
    const loads = pairs.map(({ users, server, kind }) => {
      return { url: server.url, users, request: kind, connections: 1, closing: false }
    })
    const [smallMs = Number.NaN, largeMs = Number.NaN] = (
      await measureInterleaved(loads, rounds, signal)
    ).map(one => one.p50Ms)
    const cells = [largeKind.title, formatMs(smallMs), formatMs(largeMs), formatRatio(largeMs / smallMs)]
    console.log(`  ${cells.join('  ')}`)
    tableRows.push(cells)
  }
  return tableRows
}

/** @param users size of the large database. @returns the table as Markdown */
export async function measureScale(
  users: number,
  { createPopulated, redisUrl, folder }: Stores,
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string> {
  const starts = [SMALL, users].map(count => async () => {
    console.log(`creating ${count} users …`)
    const databaseUrl = await createPopulated(count)
    await addEveryone(databaseUrl, count)
    return startServer('service', { databaseUrl, redisUrl, folder, workers: 1 })
  })
  return withServers(starts, async ([small, large]) => {
    if (small === undefined || large === undefined) throw new Error('the two services were not started')
    const services = [
      { users: SMALL, server: small },
      { users, server: large },
    ] as const
    const header = ['request', `${SMALL} users, ms`, `${users} users, ms`, 'ratio']
    return markdownTable([header, ...(await measureKinds(services, rounds, signal))])
  })
}
