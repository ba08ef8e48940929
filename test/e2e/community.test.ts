// A whole community, loaded through the API and asked for in every way; COMMUNITY_FILE names another than ours.
import { readFile } from 'node:fs/promises'
import test from 'ava'
import { type Body, createClient } from '../support/http.ts'
import { startService } from '../support/service.ts'
import { type Community, loadCommunity } from './load.ts'

const file = process.env.COMMUNITY_FILE ?? new URL('../data/community.json', import.meta.url)
const community: Community = JSON.parse(await readFile(file, 'utf8'))

const service = await startService({ workers: 2 })
const api = createClient(service.url)
const { groups, users } = await loadCommunity(api, community)

test.after.always(async t => {
  api.close()
  t.is(await service.stop(), 0)
})

const nameOf = ({ first_name, last_name }: { first_name?: string; last_name?: string }) =>
  `${first_name}|${last_name}`

/** All users of a query, page by page. */
async function everyUser(query: string): Promise<Body[]> {
  const found: Body[] = []
  let path: string | undefined = `/v1/users?records_per_page=50&${query}`
  while (path !== undefined) {
    const { body } = await api.get(path)
    found.push(...(body.users ?? []))
    const next: string | undefined = body.meta.links?.next
    path = next && new URL(next, api.url).href.slice(api.url.length)
  }
  return found
}

test('everybody and every group is there, in the order of the file', async t => {
  const all = await everyUser('')
  t.deepEqual(
    all.map(({ id }) => id),
    users,
  )
  t.deepEqual(all.map(nameOf), community.users.map(nameOf))
  const { body } = await api.get('/v1/groups?records_per_page=1000')
  t.deepEqual(
    body.groups?.map(({ name }) => name),
    community.groups,
  )
  t.deepEqual(
    body.groups?.map(({ id }) => id),
    groups,
  )
})

test('the members and the non-members of every group', async t => {
  for (const name of community.groups) {
    const parameter = (value: string) => String(new URLSearchParams({ 'groups[*].name': value }))
    const members = community.users.filter(user => user.groups.includes(name))
    const others = community.users.filter(user => !user.groups.includes(name))
    t.deepEqual((await everyUser(parameter(name))).map(nameOf), members.map(nameOf), name)
    t.deepEqual((await everyUser(parameter(`!${name}`))).map(nameOf), others.map(nameOf), `not ${name}`)
    t.is(await api.count(`/v1/users?${parameter(name)}`), members.length)
    t.is(await api.count(`/v1/users?${parameter(`!${name}`)}`), others.length)
    const id = groups[community.groups.indexOf(name)]
    t.is(await api.count(`/v1/users?groups[*].id=${id}`), members.length)
  }
})

test('include=groups of everyone, in pages and one by one', async t => {
  const order = (names: string[]) =>
    names.toSorted((a, b) => community.groups.indexOf(a) - community.groups.indexOf(b))
  const all = await everyUser('include=groups')
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

test('everyone is found by name, and by name alone', async t => {
  for (const [index, { first_name, last_name }] of community.users.entries()) {
    const escaped = [first_name, last_name].map(name => name.replace(/^[!\\]/, '\\$&'))
    const query = new URLSearchParams({ first_name: escaped[0] ?? '', last_name: escaped[1] ?? '' })
    const { body } = await api.get(`/v1/users?${query}`)
    t.deepEqual(
      body.users?.map(({ id }) => id),
      [users[index]],
    )
  }
})

test('loading it again changes nothing: each fails as existing', async t => {
  const again = await api.post('/v1/users', {
    users: community.users.map(({ first_name, last_name }) => ({ first_name, last_name })),
  })
  t.is(again.body.meta.created, 0)
  t.true(again.body.users?.every(({ meta }) => meta.code === 'user_exists'))
  t.is(await api.count('/v1/users'), community.users.length)
})
