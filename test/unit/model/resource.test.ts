// What the type of a definition refuses.
import test from 'ava'
import type { Relation } from '../../../src/model/resource.ts'
import { users } from '../../../src/model/users.ts'

test('resource: the compiler refuses a relation to a resource without a generation', t => {
  // @ts-expect-error The cached includes would be stale after a change of a related record.
  const { to }: Pick<Relation, 'to'> = { to: users }
  t.is<string | undefined, undefined>(to.generation, undefined)
})
