// A large data set that `npm run load` imports, compared with the responses of the API. COMMUNITY_FILE can
// name another data set than test/data/community.json.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import type { Body } from '../support/http.ts'
import { runNode } from '../support/run-to-end.ts'

interface Community {
  groups: string[]
  users: { first_name: string; last_name: string; groups: string[] }[]
}

const file = process.env.COMMUNITY_FILE ?? fileURLToPath(new URL('../data/community.json', import.meta.url))
const community: Community = JSON.parse(await readFile(file, 'utf8'))

const { service, api, close } = await openApi({ workers: 2 })
const load = () => runNode('dist/load.js', [file, '--url', service.url])
const loaded = await load()
const users = await readUsers('')
const { groups = [] } = (await api.get('/v1/groups?records_per_page=1000')).body
const memberships = community.users.reduce((sum, user) => sum + user.groups.length, 0)
test.after.always(close)

const nameOf = ({ first_name, last_name }: { first_name?: string; last_name?: string }) =>
  `${first_name}|${last_name}`

/** Reads all users that match `query`, page by page. */
async function readUsers(query: string): Promise<Body[]> {
  const result: Body[] = []
  let path: string | undefined = `/v1/users?records_per_page=50&${query}`
  while (path !== undefined) {
    const { body } = await api.get(path)
    result.push(...(body.users ?? []))
    const next: string | undefined = body.meta.links?.next
    path = next && new URL(next, api.url).href.slice(api.url.length)
  }
  return result
}

test('community: all users and groups of the file are created, in the order of the file', t => {
  t.is(loaded.code, 0, loaded.stderr)
  t.deepEqual(users.map(nameOf), community.users.map(nameOf))
  t.deepEqual(
    groups.map(({ name }) => name),
    community.groups,
  )
  t.regex(loaded.stdout, new RegExp(`^  users +${users.length} created, 0 unchanged, 0 failed$`, 'm'))
  t.regex(loaded.stdout, new RegExp(`^  groups +${groups.length} created, 0 unchanged, 0 failed$`, 'm'))
  t.regex(loaded.stdout, new RegExp(`^  memberships +${memberships} created, 0 unchanged, 0 failed$`, 'm'))
})

test('community: filters return the members and the non-members of every group', async t => {
  for (const name of community.groups) {
    const parameter = (value: string) => String(new URLSearchParams({ 'groups[*].name': value }))
    const members = community.users.filter(user => user.groups.includes(name))
    const others = community.users.filter(user => !user.groups.includes(name))
    t.deepEqual((await readUsers(parameter(name))).map(nameOf), members.map(nameOf), name)
    t.deepEqual((await readUsers(parameter(`!${name}`))).map(nameOf), others.map(nameOf), `not ${name}`)
    t.is(await api.count(`/v1/users?${parameter(name)}`), members.length)
    t.is(await api.count(`/v1/users?${parameter(`!${name}`)}`), others.length)
    const id = groups.find(group => group.name === name)?.id
    t.is(await api.count(`/v1/users?groups[*].id=${id}`), members.length)
  }
})

test('community: include=groups returns the groups of every user, in pages and one by one', async t => {
  const order = (names: string[]) =>
    names.toSorted((a, b) => community.groups.indexOf(a) - community.groups.indexOf(b))
  const all = await readUsers('include=groups')
  for (const [index, { first_name, last_name, groups }] of community.users.entries()) {
    const expected = [nameOf({ first_name, last_name }), order(groups)]
    const user = all[index]
    const { body } = await api.get(`/v1/users/${user?.id}?include=groups`)
    for (const one of [user, body])
      t.deepEqual([nameOf(one ?? {}), one?.groups?.map(({ name }) => name)], expected)
    const listed = await api.get(`/v1/users/${user?.id}/groups`)
    t.deepEqual(
      listed.body.groups?.map(({ name }) => name),
      order(groups),
    )
  }
})

test('community: a filter on both names returns exactly one user', async t => {
  for (const [index, { first_name, last_name }] of community.users.entries()) {
    const escaped = [first_name, last_name].map(name => name.replace(/^[!\\]/, '\\$&'))
    const query = new URLSearchParams({ first_name: escaped[0] ?? '', last_name: escaped[1] ?? '' })
    const { body } = await api.get(`/v1/users?${query}`)
    t.deepEqual(
      body.users?.map(({ id }) => id),
      [users[index]?.id],
    )
  }
})

test('community: loading the same file again changes nothing', async t => {
  const again = await load()
  t.is(again.code, 0, again.stderr)
  t.regex(again.stdout, new RegExp(`users +0 created, ${users.length} unchanged, 0 failed`))
  t.regex(again.stdout, new RegExp(`groups +0 created, ${groups.length} unchanged, 0 failed`))
  t.regex(again.stdout, new RegExp(`memberships +0 created, ${memberships} unchanged, 0 failed`))
  t.is(await api.count('/v1/users'), users.length)
})
