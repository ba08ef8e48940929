// What the types refuse. It is compiled, never run: each line that is no mistake is an error.
import type { Client } from 'openapi-fetch'
import type { paths } from './dist/api.d.ts'

export function mistakes(client: Client<paths>) {
  // @ts-expect-error: there is no such path.
  client.GET('/v1/people')
  // @ts-expect-error: it is first_name.
  client.POST('/v1/users', { body: { firstName: 'Ada', last_name: 'Lovelace' } })
  // @ts-expect-error: both names are needed.
  client.POST('/v1/users', { body: { first_name: 'Ada' } })
  // @ts-expect-error: a group's name cannot be removed.
  client.PATCH('/v1/groups/{id}', { params: { path: { id: 1 } }, body: { name: null } })
  // @ts-expect-error: there is no such column.
  client.GET('/v1/users', { params: { query: { sort: ['colour'] } } })
  // @ts-expect-error: nothing else can be included.
  client.GET('/v1/users', { params: { query: { include: ['friends'] } } })
  // @ts-expect-error: it needs an id.
  client.DELETE('/v1/users/{id}', {})
  client.GET('/v1/users/{id}', { params: { path: { id: 1 } } }).then(({ data, error }) => {
    // @ts-expect-error: a name may have been removed.
    data?.first_name.length
    // @ts-expect-error: it cannot fail with this code.
    error?.meta.code === 'group_exists'
  })
}
