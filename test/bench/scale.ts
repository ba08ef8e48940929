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

interface Kind {
  readonly title: string
  readonly query: Readonly<Record<string, string>>
  /** How many records there must be. */
  readonly total: number
}

/** The requests whose time is not to grow with the table; every page is as long in the small one as in the large one. */
function kinds(users: number): Kind[] {
  const page = { records_per_page: '20' }
  const { perFirstName, perTeam, perDivision } = sizes(users)
  const filters = [
    {
      title: 'a first name, a fiftieth of all',
      field: 'first_name',
      value: firstName(7),
      matches: perFirstName,
    },
    { title: 'a last name, one user', field: 'last_name', value: lastName(500), matches: 1 },
    { title: 'members of a team of 50', field: 'groups[*].name', value: teamName(7), matches: perTeam },
    {
      title: 'members of a tenth of all',
      field: 'groups[*].name',
      value: divisionName(7),
      matches: perDivision,
    },
  ]
  return [
    { title: 'first page of 100', query: {}, total: users },
    {
      title: 'page of 100 after nine tenths of all',
      query: { start_index: String(users * 0.9) },
      total: users,
    },
    ...filters.flatMap(({ title, field, value, matches }) => [
      { title: `\`=\` ${title}`, query: { ...page, [field]: value }, total: matches },
      { title: `\`=!\` ${title}`, query: { ...page, [field]: `!${value}` }, total: users - matches },
    ]),
    ...['first_name', 'last_name'].map(sort => ({
      title: `sorted by ${sort}`,
      query: { ...page, sort },
      total: users,
    })),
  ]
}

const path = ({ query }: Kind): string => `/v1/users?${new URLSearchParams(query)}`

/** @throws AssertionError where a total is not exact */
async function assertTotal(server: RunningServer, kind: Kind): Promise<void> {
  const client = createClient(server.url)
  const total = await client.count(path(kind)).finally(client.close)
  assert.equal(total, kind.total, `${kind.title}: ${path(kind)} at ${server.url} counts ${total}`)
}

/** @param large how many users stand against a thousand; gives the table as Markdown */
export async function measureScale(
  large: number,
  stores: Stores,
  effort: Effort,
  signal: AbortSignal,
): Promise<string> {
  const starts = [SMALL, large].map(users => async () => {
    console.log(`making ${users} users …`)
    const databaseUrl = await stores.createPopulated(users)
    const { redisUrl, folder } = stores
    return startServer('service', { databaseUrl, redisUrl, folder, workers: 1 })
  })
  return withServers(starts, async ([small, big]) => {
    if (small === undefined || big === undefined) throw new Error('two services were to run')
    const rows = [['', `${SMALL} users, ms`, `${large} users, ms`, 'ratio', 'at most']]
    const measure = async (title: string, requests: readonly [Request, Request]) => {
      console.log(`${title} …`)
      const load = { connections: 1, closing: false }
      const loads = [
        { ...load, url: small.url, users: SMALL, request: requests[0] },
        { ...load, url: big.url, users: large, request: requests[1] },
      ]
      const [few, many] = await contest(loads, effort, signal)
      if (few === undefined || many === undefined) throw new Error('nothing was measured')
      const ratio = formatRatio(many.p50Ms / few.p50Ms)
      rows.push([title, formatMs(few.p50Ms), formatMs(many.p50Ms), ratio, formatRatio(AIM)])
    }
    const pairs = kinds(large).map((kind, index) => [kinds(SMALL)[index] ?? kind, kind] as const)
    for (const [few, many] of pairs) {
      await assertTotal(small, few)
      await assertTotal(big, many)
      await measure(many.title, [
        { method: 'GET', path: path(few) },
        { method: 'GET', path: path(many) },
      ])
    }
    const one: Request = { method: 'GET', path: '/v1/users/{id}?include=groups' }
    await measure('one user with groups', [one, one])
    return markdownTable(rows)
  })
}
