// The tour of the README with a typed client. All types come from dist/api.d.ts, generated from the OpenAPI document.
import createClient from 'openapi-fetch'
import type { components, paths } from './dist/api.d.ts'

const client = createClient<paths>({
  baseUrl: process.argv[2] ?? 'http://localhost:8000',
  // An API without callers ignores the token.
  headers: { Authorization: `Bearer ${process.argv[3] ?? ''}` },
  // Lists such as sort are one parameter, with commas. By default, openapi-fetch repeats the parameter.
  querySerializer: { array: { style: 'form', explode: false } },
})

function show({ data, error }: { data?: unknown; error?: unknown }): void {
  console.log(JSON.stringify(data ?? error))
}

const body = { first_name: 'Ada', last_name: 'Lovelace' }
const ada = await client.POST('/v1/users', { body })
show(ada)
if (ada.data === undefined || !('id' in ada.data)) throw new Error('expected one user, not a batch')
const path = { user_id: ada.data.id }

const batch = await client.POST('/v1/groups', { body: { groups: [{ name: 'Analysts' }, { name: 'Poets' }] } })
show(batch)
if (batch.data === undefined || !('groups' in batch.data)) throw new Error('expected a batch')
const [analysts] = batch.data.groups
if (analysts === undefined || !('id' in analysts)) throw new Error(analysts?.meta.message)

show(await client.POST('/v1/users/{user_id}/groups', { params: { path }, body: { id: analysts.id } }))
show(await client.GET('/v1/users/{user_id}', { params: { path, query: { include: ['groups'] } } }))

const query = { 'groups[*].name': '!Poets', sort: ['-last_name' as const], records_per_page: 10 }
show(await client.GET('/v1/users', { params: { query } }))

const [, poets] = batch.data.groups
if (poets === undefined || !('id' in poets)) throw new Error(poets?.meta.message)
const group = { group_id: poets.id }
const users = [{ id: ada.data.id }]
show(await client.POST('/v1/groups/{group_id}/users', { params: { path: group }, body: { users } }))
const page = { sort: ['last_name' as const, '-id' as const], records_per_page: 10 }
show(await client.GET('/v1/groups/{group_id}/users', { params: { path: group, query: page } }))

const again = await client.POST('/v1/users', { body })
if (again.error?.meta.code === 'user_exists') show(again)

// What the tour does not show: a search, changes of many records, and the change feed.
const king = { users: [{ id: ada.data.id, last_name: 'King' }] }
show(await client.PATCH('/v1/users', { body: king }))
show(await client.GET('/v1/users', { params: { query: { search: 'king ada' } } }))
const feed = await client.GET('/v1/changes', { params: { query: { type: ['user.updated'], wait: 5 } } })
// A stream would be a string.
const changes: components['schemas']['Change'][] = typeof feed.data === 'object' ? feed.data.changes : []
show({ data: changes.map(({ type, user_id }) => ({ type, user_id })) })
show(await client.DELETE('/v1/users', { params: { query: { 'id[in]': [ada.data.id] } } }))
