// The resource "group".
import type { Resource } from './definition.ts'

export const groups: Resource = {
  singular: 'group',
  plural: 'groups',
  fields: { name: { maxCodePoints: 255, required: 'always' } },
  unique: ['name'],
  generation: 'group_generation',
}
