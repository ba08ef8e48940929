// The tour of the README with functions that hey-api generates with its defaults, to dist/hey-api, from the OpenAPI document.
import { client } from './dist/hey-api/client.gen.js'
import {
  addGroupUsers,
  addUserGroups,
  createGroup,
  createUser,
  deleteUsers,
  getUser,
  listChanges,
  listGroupUsers,
  listUsers,
  updateUsers,
} from './dist/hey-api/index.js'

client.setConfig({
  baseUrl: process.argv[2] ?? 'http://localhost:8000',
  // An API without callers ignores the token.
  headers: { Authorization: `Bearer ${process.argv[3] ?? ''}` },
})

function show({ data, error }: { data?: unknown; error?: unknown }): void {
  console.log(JSON.stringify(data ?? error))
}

const body = { first_name: 'Ada', last_name: 'Lovelace' }
const ada = await createUser({ body })
show(ada)
if (ada.data === undefined || !('id' in ada.data)) throw new Error('expected one user, not a batch')
const path = { user_id: ada.data.id }

const batch = await createGroup({ body: { groups: [{ name: 'Analysts' }, { name: 'Poets' }] } })
show(batch)
if (batch.data === undefined || !('groups' in batch.data)) throw new Error('expected a batch')
const [analysts, poets] = batch.data.groups
if (analysts === undefined || !('id' in analysts)) throw new Error(analysts?.meta.message)
if (poets === undefined || !('id' in poets)) throw new Error(poets?.meta.message)

show(await addUserGroups({ path, body: { id: analysts.id } }))
show(await getUser({ path, query: { include: ['groups'] } }))
show(await listUsers({ query: { 'groups[*].name': '!Poets', sort: ['-last_name'], records_per_page: 10 } }))

const group = { group_id: poets.id }
show(await addGroupUsers({ path: group, body: { users: [{ id: ada.data.id }] } }))
show(await listGroupUsers({ path: group, query: { sort: ['last_name'], records_per_page: 10 } }))

const again = await createUser({ body })
if (again.error?.meta.code === 'user_exists') show(again)

// What the tour does not show: a search, changes of many records, and the change feed.
show(await updateUsers({ body: { users: [{ id: ada.data.id, last_name: 'King' }] } }))
show(await listUsers({ query: { search: 'king ada' } }))
const feed = await listChanges({ query: { type: ['user.updated'], wait: 5 } })
// A stream would be a string.
const changes = typeof feed.data === 'object' ? feed.data.changes : []
show({ data: changes.map(({ type, user_id }) => ({ type, user_id })) })
show(await deleteUsers({ query: { 'id[in]': [ada.data.id] } }))
