// The JSON of a resource as the document describes it, in JSON Schema 2020-12, all of it from the resource's definition.
import { MAX_ID, type Relation, type Resource, type TextField } from '../definition.ts'
import type { QueryLimits } from '../query.ts'

export type Schema = Readonly<Record<string, unknown>>

/** The limits that the document names. */
export interface DocumentLimits extends QueryLimits {
  readonly batchEntries: number
  readonly membershipsPerUser: number
  readonly bodyBytes: number
  readonly urlBytes: number
  readonly headerBytes: number
  readonly headers: number
}

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

export const oneOf = (...names: string[]): Schema => ({ oneOf: names.map(ref) })

/** `user` as the name of a type or a tag: `User`. */
export const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

export const idSchema: Schema = { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID }

export function object(properties: Readonly<Record<string, Schema>>, optional: readonly string[] = []) {
  return {
    type: 'object',
    required: Object.keys(properties).filter(name => !optional.includes(name)),
    properties,
  } as const
}

const integer = (minimum: number): Schema => ({ type: 'integer', minimum })
const status = (value: number): Schema => ({ type: 'integer', const: value })
const listOf = (items: Schema): Schema => ({ type: 'array', items })

/** A body: what it does not name is refused, but for `meta`, so that what was read can be sent back. */
function body(
  description: string,
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[],
) {
  const meta = { description: 'Ignored, so that what was read can be sent back.' }
  return {
    description,
    ...object({ ...properties, meta }, [...optional, 'meta']),
    additionalProperties: false,
  }
}

/** Lengths count code points, in JSON Schema as in the definition. */
const textSchema = ({ maxCodePoints, example }: TextField): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength: maxCodePoints,
  pattern: '^[^\\p{Cc}\\p{Cs}]*[^\\p{Cc}\\p{Cs}\\p{White_Space}][^\\p{Cc}\\p{Cs}]*$',
  examples: [example],
})

const orNull = (schema: Schema): Schema => ({ ...schema, type: ['string', 'null'] })

function fieldsOf(resource: Resource, schemaOf = textSchema): Record<string, Schema> {
  return Object.fromEntries(Object.entries(resource.fields).map(([name, field]) => [name, schemaOf(field)]))
}

const namesOf = (resource: Resource, required: TextField['required']): string[] =>
  Object.keys(resource.fields).filter(name => resource.fields[name]?.required === required)

/** The bodies that create, replace and change one of it. */
function bodies(resource: Resource, limits: DocumentLimits): Record<string, Schema> {
  const { plural, singular } = resource
  const type = capital(singular)
  const removable = namesOf(resource, 'create')
  const id = { ...idSchema, description: 'May repeat the id of the path.' }
  const replaced = fieldsOf(resource, field =>
    field.required === 'always' ? textSchema(field) : orNull(textSchema(field)),
  )
  return {
    [`New${type}`]: body(`The fields of one new ${singular}.`, fieldsOf(resource), []),
    [`New${capital(plural)}`]: body(
      `A batch: each entry is created or fails by itself.`,
      { [plural]: { ...listOf(ref(`New${type}`)), minItems: 1, maxItems: limits.batchEntries } },
      [],
    ),
    [`${type}Replacement`]: body('All fields: one that is missing or null is removed.', { id, ...replaced }, [
      'id',
      ...removable,
    ]),
    [`${type}Changes`]: body('The fields to change; null removes a field.', { id, ...replaced }, [
      'id',
      ...Object.keys(replaced),
    ]),
  }
}

/** One entry for each entry of the request, in its order. @param failed what is known of an entry that failed */
function batch(name: string, type: string, failed: Readonly<Record<string, Schema>>): Schema {
  const meta = object(
    {
      status: status(400),
      message: { type: 'string' },
      code: { type: 'string' },
      errors: listOf(ref('Fault')),
    },
    ['errors'],
  )
  return {
    description: 'One entry for each entry of the request, in its order.',
    ...object({
      [name]: listOf({ anyOf: [ref(type), object({ ...failed, meta }, Object.keys(failed))] }),
      meta: object({
        status: status(200),
        message: { type: 'string' },
        created: integer(0),
        failed: integer(0),
      }),
    }),
  }
}

const page = (resource: Resource): Schema => ({
  description: `A page of ${resource.plural}.`,
  ...object({ [resource.plural]: listOf(ref(capital(resource.singular))), meta: ref('PageMeta') }),
})

/** What the endpoints of a relation send and answer. */
function relationSchemas({ to, name }: Relation, limits: DocumentLimits): Record<string, Schema> {
  const type = capital(to.singular)
  const ignored = fieldsOf(to, () => ({ description: 'Ignored.' }))
  return {
    [`Included${type}`]: {
      description: `One of the ${name}, as \`include\` embeds it.`,
      ...object({ id: idSchema, ...fieldsOf(to) }, namesOf(to, 'create')),
    },
    [`${type}Reference`]: body(
      `Names one ${to.singular}.`,
      { id: idSchema, ...ignored },
      Object.keys(ignored),
    ),
    [`${type}References`]: body(
      'A batch: each entry is added or fails by itself.',
      { [name]: { ...listOf(ref(`${type}Reference`)), minItems: 1, maxItems: limits.batchEntries } },
      [],
    ),
    [`Added${capital(name)}`]: batch(name, type, { id: idSchema }),
  }
}

/** The schemas that do not depend on a resource, by name. */
export function commonSchemas(): Record<string, Schema> {
  const message = { type: 'string' }
  const link = { type: 'string', format: 'uri-reference' }
  return {
    Meta: { description: 'Mirrors the HTTP status.', ...object({ status: status(200) }) },
    PageMeta: {
      description: 'The counts are exact, and of the moment that the page is of.',
      ...object({
        status: status(200),
        message,
        total_records: integer(0),
        start_index: integer(0),
        records_per_page: integer(1),
        links: object({ next: link, prev: link }, ['next', 'prev']),
      }),
    },
    Removed: object({ meta: object({ status: status(200), message }) }),
    Fault: {
      description: 'One fault of a request, of all that it has.',
      ...object({ field: message, parameter: message, code: message, message }, ['field', 'parameter']),
    },
  }
}

/** The schemas of one resource, by name. */
export function schemasOf(resource: Resource, limits: DocumentLimits): Record<string, Schema> {
  const { plural, singular, description, relation } = resource
  const type = capital(singular)
  const own = { id: idSchema, ...fieldsOf(resource) }
  const removable = namesOf(resource, 'create')
  const included = relation && { [relation.name]: listOf(ref(`Included${capital(relation.to.singular)}`)) }
  return {
    [type]: {
      description,
      ...object({ ...own, ...included, meta: ref('Meta') }, [...removable, ...Object.keys(included ?? {})]),
    },
    [`${type}Page`]: page(resource),
    [`${type}Batch`]: batch(plural, type, fieldsOf(resource)),
    ...bodies(resource, limits),
    ...(relation && relationSchemas(relation, limits)),
  }
}
