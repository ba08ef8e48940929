// Builds the named schemas of the document from the definitions of the resources.
import type { Config } from '../../config/config.ts'
import { type ErrorCode, statuses } from '../../core/api-error.ts'
import { limitedRelations, type Resource, type TextField } from '../../model/resource.ts'
import { MAX_FAULTS_OF_ENTRY } from '../requests/batch.ts'
import {
  capitalize,
  fieldSchemas,
  idSchema,
  integer,
  listOf,
  messageSchema,
  object,
  optionalFields,
  ref,
  removableFields,
  type Schema,
  textSchema,
} from './json-schema.ts'

/** A request body. It accepts `meta` and rejects all other fields that `properties` does not list. */
function body(
  description: string,
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[] = [],
): Schema {
  const meta = {
    description: 'Ignored. It is accepted so that you can send the body of a response as a request.',
  }
  return {
    description,
    ...object({ ...properties, meta }, [...optional, 'meta']),
    additionalProperties: false,
  }
}

const batchRequest = (
  name: string,
  type: string,
  result: string,
  { batchEntries }: Config['limits'],
): Schema =>
  body(`A batch. Each entry is ${result} or fails independently.`, {
    [name]: { ...listOf(ref(type)), minItems: 1, maxItems: batchEntries },
  })

const textOrNull = (field: TextField): Schema => ({ ...textSchema(field), type: ['string', 'null'] })

/** The bodies that create, replace and update a record, by schema name. */
function recordBodies(resource: Resource, limits: Config['limits']): Record<string, Schema> {
  const { plural, singular } = resource
  const type = capitalize(singular)
  const id = { ...idSchema, description: 'Must equal the id in the path.' }
  const newFields = fieldSchemas(resource, field =>
    field.required === false ? textOrNull(field) : textSchema(field),
  )
  const fields = fieldSchemas(resource, field =>
    field.required === 'always' ? textSchema(field) : textOrNull(field),
  )
  return {
    [`New${type}`]: body(`A new ${singular}.`, newFields, optionalFields(resource)),
    [`New${capitalize(plural)}`]: batchRequest(plural, `New${type}`, 'created', limits),
    [`${type}Replacement`]: body(
      'All fields. Optional fields that are missing or null are removed.',
      { id, ...fields },
      ['id', ...removableFields(resource)],
    ),
    [`${type}Changes`]: body(
      'The fields to change. A null value removes an optional field.',
      { id, ...fields },
      ['id', ...Object.keys(fields)],
    ),
  }
}

const status = (value: number): Schema => ({ type: 'integer', const: value })
const codeOf = (codes: readonly string[]): Schema => ({ type: 'string', enum: codes })

/** The error codes of an invalid batch entry. */
const entryCodes: readonly ErrorCode[] = ['invalid_body', 'missing_field', 'invalid_field', 'unknown_field']

/**
 * The response to a batch.
 * @param failed the fields that a failed entry repeats from the request
 * @param codes the error codes of an entry, in addition to `entryCodes`
 */
function batchResponse(
  name: string,
  type: string,
  failed: Readonly<Record<string, Schema>>,
  codes: readonly ErrorCode[],
): Schema {
  const code = codeOf([...entryCodes, ...codes])
  const fault = object(
    {
      status: status(400),
      message: messageSchema,
      code,
      errors: { ...listOf(ref('Fault')), maxItems: MAX_FAULTS_OF_ENTRY },
    },
    ['errors'],
  )
  const entry = { anyOf: [ref(type), object({ ...failed, meta: fault }, Object.keys(failed))] }
  const counts = { created: integer(0), failed: integer(0) }
  return {
    description: 'The results of a batch: one for each entry of the request, in the same order.',
    ...object({
      [name]: listOf(entry),
      meta: object({ status: status(200), message: messageSchema, ...counts }),
    }),
  }
}

/** The responses with one record, with a page and with a batch, by schema name. */
function recordSchemas(resource: Resource): Record<string, Schema> {
  const { plural, singular, description } = resource
  const type = capitalize(singular)
  const included = Object.fromEntries(
    limitedRelations(resource).map(({ name, to }) => [
      name,
      listOf(ref(`Included${capitalize(to.singular)}`)),
    ]),
  )
  const optional = [...removableFields(resource), ...Object.keys(included)]
  return {
    [type]: {
      description,
      ...object({ id: idSchema, ...fieldSchemas(resource), ...included, meta: ref('Meta') }, optional),
    },
    [`${type}Page`]: {
      description: `A page of ${plural}.`,
      ...object({ [plural]: listOf(ref(type)), meta: ref('PageMeta') }),
    },
    [`${type}Batch`]: batchResponse(plural, type, fieldSchemas(resource), [`${singular}_exists`]),
  }
}

/** A record that `include` embeds, by schema name. */
const includedSchema = (to: Resource): Record<string, Schema> => ({
  [`Included${capitalize(to.singular)}`]: {
    description: `A ${to.singular} that \`include\` embeds.`,
    ...object({ id: idSchema, ...fieldSchemas(to) }, removableFields(to)),
  },
})

/**
 * The bodies that refer to records of `to`, and the response to a batch of them, by schema name.
 * @param name the name of a batch
 */
function referenceSchemas(to: Resource, name: string, limits: Config['limits']): Record<string, Schema> {
  const type = capitalize(to.singular)
  const ignored = fieldSchemas(to, () => ({ description: 'Ignored.' }))
  const codes: ErrorCode[] = [`${to.singular}_not_found`, 'limit_exceeded']
  return {
    [`${type}Reference`]: body(
      `A reference to a ${to.singular}.`,
      { id: idSchema, ...ignored },
      Object.keys(ignored),
    ),
    [`${type}References`]: batchRequest(name, `${type}Reference`, 'added', limits),
    [`Added${capitalize(name)}`]: batchResponse(name, type, { id: idSchema }, codes),
  }
}

/** The schemas that do not depend on a resource, by name. */
function commonSchemas(): Record<string, Schema> {
  const link = { type: 'string', format: 'uri-reference' }
  const codes = Object.entries(statuses).flatMap(([code, status]) => (status === 400 ? [code] : []))
  return {
    Meta: { description: 'Repeats the HTTP status.', ...object({ status: status(200) }) },
    PageMeta: {
      description: 'The counts are exact. They come from the same database snapshot as the records.',
      ...object({
        status: status(200),
        message: messageSchema,
        total_records: integer(0),
        start_index: integer(0),
        records_per_page: integer(1),
        links: object({ next: link, prev: link }, ['next', 'prev']),
      }),
    },
    Removed: object({ meta: object({ status: status(200), message: messageSchema }) }),
    Fault: {
      description: 'A fault in a field or a parameter of the request.',
      ...object(
        {
          field: { type: 'string' },
          parameter: { type: 'string' },
          code: codeOf(codes),
          message: messageSchema,
        },
        ['field', 'parameter'],
      ),
    },
  }
}

export function schemasOf(resources: readonly Resource[], limits: Config['limits']): Record<string, Schema> {
  const schemas = resources.flatMap(resource => [
    recordSchemas(resource),
    recordBodies(resource, limits),
    ...limitedRelations(resource).flatMap(({ to, name }) => [
      includedSchema(to),
      referenceSchemas(to, name, limits),
      referenceSchemas(resource, resource.plural, limits),
    ]),
  ])
  return Object.assign(commonSchemas(), ...schemas)
}
