// What the size of the table costs: the service on a thousand users and on a million, one request at a time.
import assert from 'node:assert/strict'
import { createClient } from '../support/http.ts'
import type { Request } from './comparisons.ts'
import { contest, type Effort } from './contest.ts'
import { divisionName, firstName, lastName, sizes, teamName } from './population.ts'
import { type RunningServer, startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, formatRatio, markdownTable } from './table.ts'

const SMALL = 1000
const AIM = 3

/** A service and the table it works on. */
interface Contestant {
  readonly users: number
  readonly server: RunningServer
}

interface Kind {
  readonly title: string
  readonly path: string
  /** How many records a collection must say it has. */
  readonly total?: number
}

/** The requests whose time is not to grow with the table; pages of the small and of the large one are equally long. */
function kinds(users: number): Kind[] {
  const { perFirstName, perTeam, perDivision } = sizes(users)
  const collection = (title: string, total: number, query: Record<string, string>) => ({
    title,
    path: `/v1/users?${new URLSearchParams(query)}`,
    total,
  })
  const filtered = (title: string, field: string, value: string, matches: number) => [
    collection(`\`=\` ${title}`, matches, { records_per_page: '20', [field]: value }),
    collection(`\`=!\` ${title}`, users - matches, { records_per_page: '20', [field]: `!${value}` }),
  ]
  return [
    collection('first page of 100', users, {}),
    collection('page of 100 after nine tenths of all', users, { start_index: String(users * 0.9) }),
    collection('page of 100 above the id in the middle', users / 2, { 'id[gt]': String(users / 2) }),
    ...filtered('a first name, a fiftieth of all', 'first_name', firstName(7), perFirstName),
    ...filtered('a last name, one user', 'last_name', lastName(500), 1),
    ...filtered('members of a team of 50', 'groups[*].name', teamName(7), perTeam),
    ...filtered('members of a tenth of all', 'groups[*].name', divisionName(7), perDivision),
    collection('sorted by first_name', users, { records_per_page: '20', sort: 'first_name' }),
    collection('sorted by last_name', users, { records_per_page: '20', sort: 'last_name' }),
    collection('sorted by last_name, backwards', users, { records_per_page: '20', sort: '-last_name' }),
    collection('sorted by first_name, then last_name', users, {
      records_per_page: '20',
      sort: 'first_name,last_name',
    }),
    { title: 'one user', path: '/v1/users/{id}' },
    { title: 'one user with groups', path: '/v1/users/{id}?include=groups' },
  ]
}

/** @throws AssertionError where the total is not exact */
async function assertTotal({ server }: Contestant, { title, path, total }: Kind): Promise<void> {
  if (total === undefined) return
  const client = createClient(server.url)
  const counted = await client.count(path).finally(client.close)
  assert.equal(counted, total, `${title}: ${path} at ${server.url} has a wrong total`)
}

/** Gives a row of the table for each kind of request. */
async function measureKinds(
  [small, large]: readonly [Contestant, Contestant],
  effort: Effort,
  signal: AbortSignal,
): Promise<string[][]> {
  const rows: string[][] = []
  const ofSmall = kinds(small.users)
  for (const [index, ofLarge] of kinds(large.users).entries()) {
    const pairs = [
      { ...small, kind: ofSmall[index] ?? ofLarge },
      { ...large, kind: ofLarge },
    ]
    for (const { kind, ...contestant } of pairs) await assertTotal(contestant, kind)
    const loads = pairs.map(({ users, server, kind }) => {
      const request: Request = { method: 'GET', path: kind.path }
      return { url: server.url, users, request, connections: 1, closing: false }
    })
    const [few = Number.NaN, many = Number.NaN] = (await contest(loads, effort, signal)).map(one => one.p50Ms)
    const cells = [ofLarge.title, formatMs(few), formatMs(many), formatRatio(many / few)]
    console.log(`  ${cells.join('  ')}`)
    rows.push([...cells, formatRatio(AIM)])
  }
  return rows
}

/** @param users how many stand against a thousand; gives the table as Markdown */
export async function measureScale(
  users: number,
  { createPopulated, redisUrl, folder }: Stores,
  effort: Effort,
  signal: AbortSignal,
): Promise<string> {
  const starts = [SMALL, users].map(count => async () => {
    console.log(`making ${count} users …`)
    const databaseUrl = await createPopulated(count)
    return startServer('service', { databaseUrl, redisUrl, folder, workers: 1 })
  })
  return withServers(starts, async ([small, large]) => {
    if (small === undefined || large === undefined) throw new Error('two services were to run')
    const contestants = [
      { users: SMALL, server: small },
      { users, server: large },
    ] as const
    const head = ['', `${SMALL} users, ms`, `${users} users, ms`, 'ratio', 'at most']
    return markdownTable([head, ...(await measureKinds(contestants, effort, signal))])
  })
}
