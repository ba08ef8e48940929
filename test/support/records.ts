// New users and groups. No two of a test file have the same name.
import type { Client } from './http.ts'

let sequence = 0

export const newPerson = () => ({ first_name: 'Ada', last_name: `Lovelace ${++sequence}` })

export const newGroup = () => ({ name: `Group ${++sequence}` })

export const createUser = (api: Client): Promise<number> => api.create('/v1/users', newPerson())

export const createGroup = (api: Client): Promise<number> => api.create('/v1/groups', newGroup())

/** Creates users with one request. */
export async function createUsers(api: Client, count: number): Promise<number[]> {
  const { users = [] } = (await api.post('/v1/users', { users: Array.from({ length: count }, newPerson) }))
    .body
  return users.map(({ id }) => Number(id))
}

/** Creates groups with one request. */
export async function createGroups(api: Client, count: number): Promise<number[]> {
  const { groups = [] } = (await api.post('/v1/groups', { groups: Array.from({ length: count }, newGroup) }))
    .body
  return groups.map(({ id }) => Number(id))
}
