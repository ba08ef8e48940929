// The definition of the resource `group`.
import type { Resource } from './resource.ts'

export const groups: Resource = {
  singular: 'group',
  plural: 'groups',
  description: 'A named set of users. No two groups have the same name.',
  fields: { name: { maxCodePoints: 255, required: 'always', example: 'Analysts' } },
  unique: ['name'],
  relations: [],
  generation: 'group_generation',
}
