// The resource "group".
import type { Resource } from './resource.ts'

export const groups: Resource = {
  singular: 'group',
  plural: 'groups',
  description: 'What people can be in together. No two have the same name.',
  fields: { name: { maxCodePoints: 255, required: 'always', example: 'Analysts' } },
  unique: ['name'],
  generation: 'group_generation',
}
