// The type of resource definitions. Validation, SQL columns, filters and the OpenAPI document use them.
import type { Config } from '../config/config.ts'

/** A string of 1 to `maxCodePoints` code points, stored without normalization. */
export interface TextField {
  readonly maxCodePoints: number
  /** `create`: required by POST, can be removed later. `always`: cannot be removed. False: may be missing in POST. */
  readonly required: 'create' | 'always' | false
  /** The example value in the OpenAPI document. */
  readonly example: string
}

/**
 * A many-to-many relation, stored in a join table. The resource that defines it is its limited side: its records can include
 * the related ones, and its memberships change the version of its records. Both sides have membership endpoints:
 * `/v1/users/<id>/groups` has the name of the relation, `/v1/groups/<id>/users` that of the collection. A resource has at most
 * one relation leading to it: it counts the members.
 */
export interface Relation {
  /** The name in filters, in paths and in `include`. */
  readonly name: string
  readonly to: RelatedResource
  readonly table: string
  /** The column with the id of the resource that defines the relation. */
  readonly fromKey: string
  /** The column with the id of the related resource. */
  readonly toKey: string
  /** Returns the maximum number of related records of one record. */
  readonly maxPerRecord: (limits: Config['limits']) => number
}

export interface Resource {
  /** The name in messages and error codes: `user`. */
  readonly singular: string
  /** The name of the path, of the JSON member of a collection, and of the table: `users`. */
  readonly plural: string
  /** The description in the OpenAPI document. */
  readonly description: string
  /**
   * By name, which is also the name of the column. These names are taken: `id`, `meta`, `version`, `generation`, `total`,
   * `position`, `own_id`, `own_version`, `<field>_search`, the value of `plural`, the names of the relations, those of query
   * parameters such as `search`, and the reserved words of SQL: statements name the columns without quotes.
   */
  readonly fields: Readonly<Record<string, TextField>>
  /** The fields of the unique index: no two records have the same values in all of them. */
  readonly unique: readonly string[]
  readonly relations: readonly Relation[]
  /**
   * The name of a one-row table with a token that changes when a record of this resource is updated or
   * deleted. Cache keys of the resources that include this one contain the token.
   */
  readonly generation?: string
}

/** A resource that another one can include. Without a token, cached includes would be stale after a change of its records. */
export type RelatedResource = Resource & Required<Pick<Resource, 'generation'>>

/** The name of the id of a record beside other ids, in paths and events: `user_id`. */
export const idName = ({ singular }: Resource): string => `${singular}_id`

/** The largest id that is exact as a JSON number: 2^53 − 1. */
export const MAX_ID = Number.MAX_SAFE_INTEGER

/** Parses an id: `[1-9][0-9]*`, up to 2^53 − 1. @returns undefined for any other text */
export function parseId(text: string): number | undefined {
  if (!/^[1-9][0-9]{0,15}$/.test(text)) return undefined
  const id = Number(text)
  return id <= MAX_ID ? id : undefined
}

/** Returns the fields that filters and sort keys can use. */
export function columnsOf(resource: Resource): string[] {
  return ['id', ...Object.keys(resource.fields)]
}

/**
 * Returns the types of the events in the change feed: `user.created`, … for each resource, and `membership.created`,
 * `membership.deleted` for the relations of all of them.
 */
export function changeTypes(resources: readonly Resource[]): string[] {
  const hasRelations = resources.some(({ relations }) => relations.length > 0)
  return [
    ...resources.flatMap(({ singular }) =>
      ['created', 'updated', 'deleted'].map(end => `${singular}.${end}`),
    ),
    ...(hasRelations ? ['membership.created', 'membership.deleted'] : []),
  ]
}
