// The types of the events in the change feed.
import { limitedRelations, type Resource } from './resource.ts'

/** `user.created`, … for each resource, and `membership.created`, `membership.deleted` for the relations of all of them. */
export function changeTypes(resources: readonly Resource[]): string[] {
  const hasRelations = resources.some(resource => limitedRelations(resource).length > 0)
  return [
    ...resources.flatMap(({ singular }) =>
      ['created', 'updated', 'deleted'].map(end => `${singular}.${end}`),
    ),
    ...(hasRelations ? ['membership.created', 'membership.deleted'] : []),
  ]
}
