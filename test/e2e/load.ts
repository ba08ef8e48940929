// Loads a community (people and the groups they are in) into a service, with batch creates only.
// By hand: npx tsx test/e2e/load.ts http://127.0.0.1:8000 test/data/community.json
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { type Body, type Client, createClient } from '../support/http.ts'

export interface Community {
  groups: string[]
  users: { first_name: string; last_name: string; groups: string[] }[]
}

const batchEntries = 1000

/** Creates all `entries` under `kind` of `path`, so many at a time; gives their ids in order. */
async function createAll(
  api: Client,
  path: string,
  kind: 'users' | 'groups',
  entries: object[],
): Promise<number[]> {
  const ids: number[] = []
  for (let start = 0; start < entries.length; start += batchEntries) {
    const answer = await api.post(path, { [kind]: entries.slice(start, start + batchEntries) })
    const made: Body[] = (answer.status === 200 && answer.body[kind]) || []
    const failed = made.find(({ meta }) => meta.status !== 200)
    if (made.length === 0 || failed !== undefined)
      throw new Error(`${path}: ${JSON.stringify(failed) ?? answer.text}`)
    ids.push(...made.map(({ id }) => Number(id)))
  }
  return ids
}

/**
 * Loads `community` through the API of `api`.
 * @returns the ids of its groups and users, in its order
 * @throws Error with the first answer that was not a success
 */
export async function loadCommunity(api: Client, community: Community) {
  const groups = await createAll(
    api,
    '/v1/groups',
    'groups',
    community.groups.map(name => ({ name })),
  )
  const idOf = new Map(community.groups.map((name, index) => [name, groups[index]]))
  const people = community.users.map(({ first_name, last_name }) => ({ first_name, last_name }))
  const users = await createAll(api, '/v1/users', 'users', people)
  for (const [index, user] of community.users.entries()) {
    const memberships = user.groups.map(name => ({ id: idOf.get(name) }))
    if (memberships.length > 0)
      await createAll(api, `/v1/users/${users[index]}/groups`, 'groups', memberships)
  }
  return { groups, users }
}

const [, script, url, file] = process.argv
if (script === fileURLToPath(import.meta.url) && url !== undefined && file !== undefined) {
  const api = createClient(url)
  const { groups, users } = await loadCommunity(api, JSON.parse(await readFile(file, 'utf8')))
  console.log(`${groups.length} groups and ${users.length} users are loaded`)
  api.close()
}
