// Code that the generated types must reject. It is compiled but not run: an unused @ts-expect-error is a compile error.
import type { Client } from 'openapi-fetch'
import type { paths } from './dist/api.d.ts'

export function mistakes(client: Client<paths>) {
  // @ts-expect-error: the path does not exist.
  client.GET('/v1/people')
  // @ts-expect-error: the field is first_name.
  client.POST('/v1/users', { body: { firstName: 'Ada', last_name: 'Lovelace' } })
  // @ts-expect-error: last_name is required.
  client.POST('/v1/users', { body: { first_name: 'Ada' } })
  // @ts-expect-error: a group's name cannot be removed.
  client.PATCH('/v1/groups/{group_id}', { params: { path: { group_id: 1 } }, body: { name: null } })
  // @ts-expect-error: the column does not exist.
  client.GET('/v1/users', { params: { query: { sort: ['colour'] } } })
  // @ts-expect-error: only groups can be included.
  client.GET('/v1/users', { params: { query: { include: ['friends'] } } })
  // @ts-expect-error: a group cannot include its users.
  client.GET('/v1/groups/{group_id}', { params: { path: { group_id: 1 }, query: { include: ['users'] } } })
  const params = { path: { group_id: 1 } }
  // @ts-expect-error: a batch of a group's users has the field users.
  client.POST('/v1/groups/{group_id}/users', { params, body: { groups: [{ id: 1 }] } })
  // @ts-expect-error: a membership is removed from the user's side.
  client.DELETE('/v1/groups/{group_id}/users/{user_id}', { params: { path: { group_id: 1, user_id: 1 } } })
  // @ts-expect-error: the id is required.
  client.DELETE('/v1/users/{user_id}', {})
  client.GET('/v1/users/{user_id}', { params: { path: { user_id: 1 } } }).then(({ data, error }) => {
    // @ts-expect-error: first_name can be missing.
    data?.first_name.length
    // @ts-expect-error: the operation does not return this code.
    error?.meta.code === 'group_exists'
  })
}
