// The definition of the resource `user`.
import { groups } from './groups.ts'
import type { Resource } from './resource.ts'

export const users: Resource = {
  singular: 'user',
  plural: 'users',
  description: 'A person. No two users have the same first and last name.',
  fields: {
    first_name: { maxCodePoints: 255, required: 'create', example: 'Ada' },
    last_name: { maxCodePoints: 255, required: 'create', example: 'Lovelace' },
  },
  unique: ['first_name', 'last_name'],
  relations: [
    {
      name: 'groups',
      to: groups,
      table: 'memberships',
      fromKey: 'user_id',
      toKey: 'group_id',
      maxPerRecord: limits => limits.membershipsPerUser,
    },
  ],
}
