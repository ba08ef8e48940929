// The definition of the resource `group`.
import type { RelatedResource } from './resource.ts'

export const groups: RelatedResource = {
  singular: 'group',
  plural: 'groups',
  description: 'A named set of users. No two groups have the same name.',
  fields: { name: { maxCodePoints: 255, required: 'always', example: 'Analysts' } },
  unique: ['name'],
  relations: [],
  generation: 'group_generation',
}
