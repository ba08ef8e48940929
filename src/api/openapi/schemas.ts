// Every schema of the document, by name, from the definitions of the resources.
import type { Config } from '../../config/config.ts'
import { type ErrorCode, statuses } from '../../core/api-error.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import { MAX_FAULTS_OF_ENTRY } from '../requests/batch.ts'
import {
  capital,
  fieldsOf,
  idSchema,
  integer,
  listOf,
  messageSchema,
  object,
  ref,
  removableOf,
  type Schema,
  textSchema,
} from './json-schema.ts'

/** What it does not name is refused, but for `meta`. */
function body(
  description: string,
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[] = [],
): Schema {
  const meta = { description: 'Ignored, so that what was read can be sent back.' }
  return {
    description,
    ...object({ ...properties, meta }, [...optional, 'meta']),
    additionalProperties: false,
  }
}

const batchOf = (name: string, type: string, does: string, { batchEntries }: Config['limits']): Schema =>
  body(`A batch: each entry is ${does} or fails by itself.`, {
    [name]: { ...listOf(ref(type)), minItems: 1, maxItems: batchEntries },
  })

/** The bodies that create, replace and change a record, by name. */
function recordBodies(resource: Resource, limits: Config['limits']): Record<string, Schema> {
  const { plural, singular } = resource
  const type = capital(singular)
  const id = { ...idSchema, description: 'May repeat the id of the path.' }
  const fields = fieldsOf(resource, field => ({
    ...textSchema(field),
    ...(field.required === 'create' && { type: ['string', 'null'] }),
  }))
  return {
    [`New${type}`]: body(`The fields of one new ${singular}.`, fieldsOf(resource)),
    [`New${capital(plural)}`]: batchOf(plural, `New${type}`, 'created', limits),
    [`${type}Replacement`]: body('All fields: one that is missing or null is removed.', { id, ...fields }, [
      'id',
      ...removableOf(resource),
    ]),
    [`${type}Changes`]: body('The fields to change; null removes a field.', { id, ...fields }, [
      'id',
      ...Object.keys(fields),
    ]),
  }
}

/** The bodies that name related records, by name. */
function referenceBodies({ to, name }: Relation, limits: Config['limits']): Record<string, Schema> {
  const type = `${capital(to.singular)}Reference`
  const ignored = fieldsOf(to, () => ({ description: 'Ignored.' }))
  return {
    [type]: body(`Names one ${to.singular}.`, { id: idSchema, ...ignored }, Object.keys(ignored)),
    [`${type}s`]: batchOf(name, type, 'added', limits),
  }
}

const status = (value: number): Schema => ({ type: 'integer', const: value })
const codeOf = (codes: readonly string[]): Schema => ({ type: 'string', enum: codes })

/** What can be wrong with the body of an entry. */
const entryCodes: readonly ErrorCode[] = ['invalid_body', 'missing_field', 'invalid_field', 'unknown_field']

/**
 * The answer to a batch.
 * @param failed what is known of an entry that failed
 * @param codes what can be wrong with an entry, beside its body
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
    description: 'One entry for each entry of the request, in its order.',
    ...object({
      [name]: listOf(entry),
      meta: object({ status: status(200), message: messageSchema, ...counts }),
    }),
  }
}

/** A record, alone, in a page and in a batch, by name. */
function recordSchemas(resource: Resource): Record<string, Schema> {
  const { plural, singular, description, relation } = resource
  const type = capital(singular)
  const included = relation && { [relation.name]: listOf(ref(`Included${capital(relation.to.singular)}`)) }
  const optional = [...removableOf(resource), ...Object.keys(included ?? {})]
  return {
    [type]: {
      description,
      ...object({ id: idSchema, ...fieldsOf(resource), ...included, meta: ref('Meta') }, optional),
    },
    [`${type}Page`]: {
      description: `A page of ${plural}.`,
      ...object({ [plural]: listOf(ref(type)), meta: ref('PageMeta') }),
    },
    [`${type}Batch`]: batchResponse(plural, type, fieldsOf(resource), [`${singular}_exists`]),
  }
}

/** Related records, embedded and added, by name. */
function relatedSchemas({ to, name }: Relation): Record<string, Schema> {
  const type = capital(to.singular)
  return {
    [`Included${type}`]: {
      description: `One of the ${name}, as \`include\` embeds it.`,
      ...object({ id: idSchema, ...fieldsOf(to) }, removableOf(to)),
    },
    [`Added${capital(name)}`]: batchResponse(name, type, { id: idSchema }, [
      `${to.singular}_not_found`,
      'limit_exceeded',
    ]),
  }
}

/** What does not depend on a resource, by name. */
function commonSchemas(): Record<string, Schema> {
  const link = { type: 'string', format: 'uri-reference' }
  const codes = Object.entries(statuses).flatMap(([code, status]) => (status === 400 ? [code] : []))
  return {
    Meta: { description: 'Mirrors the HTTP status.', ...object({ status: status(200) }) },
    PageMeta: {
      description: 'The counts are exact, and of the moment that the page is of.',
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
      description: 'One fault of a request, of all that it has.',
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
  const schemas = resources.map(resource => ({
    ...recordSchemas(resource),
    ...recordBodies(resource, limits),
    ...(resource.relation && {
      ...relatedSchemas(resource.relation),
      ...referenceBodies(resource.relation, limits),
    }),
  }))
  return Object.assign(commonSchemas(), ...schemas)
}
