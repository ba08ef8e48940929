// What a resource is. Validation, SQL columns, filters and the API document all come from such a definition.

/** A string of 1 to `maxCodePoints` code points, stored exactly as sent. */
export interface TextField {
  readonly maxCodePoints: number
  /** `create`: needed by POST, may be removed later. `always`: never missing. */
  readonly required: 'create' | 'always'
  /** A value that the document shows. */
  readonly example: string
}

/** A many-to-many relation, kept in a table of pairs. */
export interface Relation {
  /** Its name in paths, in `include` and in filters. */
  readonly name: string
  readonly to: Resource
  readonly table: string
  /** The column with the id of the resource that has the relation. */
  readonly ownKey: string
  /** The column with the id of the related resource. */
  readonly otherKey: string
}

export interface Resource {
  /** Names one of it in messages and error codes: `user`. */
  readonly singular: string
  /** Names the path, the wrapper of a collection and the table: `users`. */
  readonly plural: string
  /** What one of it is, for people: a sentence of the document. */
  readonly description: string
  readonly fields: Readonly<Record<string, TextField>>
  /** No two may agree in all of these fields. The database's unique index decides. */
  readonly unique: readonly string[]
  /** What `include`, related filters and the membership endpoints offer. */
  readonly relation?: Relation
  /**
   * The table of one row whose token changes when one of it is renamed or removed: so long as it stays, what was cached
   * of them holds. Needed by what others are related to.
   */
  readonly generation?: string
}

/** The largest id that JSON carries exactly: 2^53 − 1. */
export const MAX_ID = Number.MAX_SAFE_INTEGER

/** Reads an id in its one spelling, `[1-9][0-9]*` up to 2^53 − 1. */
export function parseId(text: string): number | undefined {
  if (!/^[1-9][0-9]{0,15}$/.test(text)) return undefined
  const id = Number(text)
  return id <= MAX_ID ? id : undefined
}

/** Every field that a filter or a sort can name. */
export function columnsOf(resource: Resource): string[] {
  return ['id', ...Object.keys(resource.fields)]
}
