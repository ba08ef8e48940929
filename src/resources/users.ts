// The resource "user".
import type { Resource } from './definition.ts'
import { groups } from './groups.ts'

export const users: Resource = {
  singular: 'user',
  plural: 'users',
  fields: {
    first_name: { maxCodePoints: 255, required: 'create' },
    last_name: { maxCodePoints: 255, required: 'create' },
  },
  unique: ['first_name', 'last_name'],
  relation: { name: 'groups', to: groups, table: 'memberships', ownKey: 'user_id', otherKey: 'group_id' },
}
