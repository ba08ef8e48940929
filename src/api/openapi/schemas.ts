// Builds the named schemas of the document from the definitions of the resources.
import type { Config } from '../../config/config.ts'
import { type ErrorCode, statuses } from '../../core/api-error.ts'
import type { Resource, TextField } from '../../model/resource.ts'
import { MAX_FAULTS_OF_ENTRY, type Success } from '../requests/batch.ts'
import {
  capitalize,
  fieldMembers,
  idSchema,
  integer,
  isRemovable,
  listOf,
  object,
  ref,
  type Schema,
  type Schemas,
  text,
} from './json-schema.ts'

const always = () => true

const ignoredMeta = {
  description: 'Ignored. It is accepted so that you can send the body of a response as a request.',
}

/** A request body. It accepts `meta` and rejects all other fields that `members` does not list. */
const body = (description: string, members: Schemas): Schema => ({
  description,
  ...object({ ...members, 'meta?': ignoredMeta }),
  additionalProperties: false,
})

const batchRequest = (
  name: string,
  type: string,
  result: string,
  { batchEntries }: Config['limits'],
): Schema =>
  body(`A batch. Each entry is ${result} or fails independently.`, {
    [name]: { ...listOf(ref(type)), minItems: 1, maxItems: batchEntries },
  })

/** The bodies that create, replace and update a record, by schema name. */
function recordBodies(resource: Resource, limits: Config['limits']): Schemas {
  const { plural, singular } = resource
  const type = capitalize(singular)
  const id = { ...idSchema, description: 'Must equal the id in the path.' }
  const isOptional = ({ required }: TextField) => required === false
  const changes = fieldMembers(resource, always, isRemovable)
  return {
    [`New${type}`]: body(`A new ${singular}.`, fieldMembers(resource, isOptional, isOptional)),
    [`New${capitalize(plural)}`]: batchRequest(plural, `New${type}`, 'created', limits),
    [`${type}Replacement`]: body('All fields. Optional fields that are missing or null are removed.', {
      'id?': id,
      ...fieldMembers(resource, isRemovable, isRemovable),
    }),
    [`${type}Changes`]: body('The fields to change. A null value removes an optional field.', {
      'id?': id,
      ...changes,
    }),
    [`${type}Patch`]: body(`The id of a ${singular}, and the fields to change.`, {
      id: idSchema,
      ...changes,
    }),
    [`${type}Patches`]: batchRequest(plural, `${type}Patch`, 'applied', limits),
  }
}

const status = (value: number): Schema => ({ type: 'integer', const: value })
const success = { status: status(200), message: text }
const codeOf = (codes: readonly string[]): Schema => ({ type: 'string', enum: codes })

/** The error codes of an invalid entry of a body. */
const entryCodes: readonly ErrorCode[] = ['invalid_body', 'missing_field', 'invalid_field', 'unknown_field']

interface BatchResponse {
  readonly counted: Success
  readonly succeeded: Schema
  /** The fields that a failed entry repeats from the request. */
  readonly failed: Schemas
  readonly codes: readonly ErrorCode[]
}

function batchResponse(name: string, { counted, succeeded, failed, codes }: BatchResponse): Schema {
  const fault = object({
    status: status(400),
    message: text,
    code: codeOf(codes),
    'errors?': { ...listOf(ref('Fault')), maxItems: MAX_FAULTS_OF_ENTRY },
  })
  const meta = object({ ...success, [counted]: integer(0), failed: integer(0) })
  return {
    description: 'The results: one for each entry of the request, in the same order.',
    ...object({ [name]: listOf({ anyOf: [succeeded, object({ ...failed, meta: fault })] }), meta }),
  }
}

/** The response to a DELETE of several records or memberships. @param code the error code of an entry */
const deletedResponse = (name: string, code: ErrorCode): Schema =>
  batchResponse(name, {
    counted: 'deleted',
    succeeded: object({ id: idSchema, meta: object(success) }),
    failed: { id: idSchema },
    codes: [code],
  })

/** The responses with one record, with a page and with a batch, by schema name. */
function recordSchemas(resource: Resource): Schemas {
  const { plural, singular, description } = resource
  const type = capitalize(singular)
  const included = Object.fromEntries(
    resource.relations.map(({ name, to }) => [`${name}?`, listOf(ref(`Included${capitalize(to.singular)}`))]),
  )
  return {
    [type]: {
      description,
      ...object({ id: idSchema, ...fieldMembers(resource), ...included, meta: ref('Meta') }),
    },
    [`${type}Page`]: {
      description: `A page of ${plural}.`,
      ...object({ [plural]: listOf(ref(type)), meta: ref('PageMeta') }),
    },
    [`${type}Batch`]: batchResponse(plural, {
      counted: 'created',
      succeeded: ref(type),
      failed: fieldMembers(resource, always),
      codes: [...entryCodes, `${singular}_exists`],
    }),
    [`Updated${capitalize(plural)}`]: batchResponse(plural, {
      counted: 'updated',
      succeeded: ref(type),
      failed: { 'id?': idSchema },
      codes: [...entryCodes, `${singular}_not_found`, `${singular}_exists`],
    }),
    [`Deleted${capitalize(plural)}`]: deletedResponse(plural, `${singular}_not_found`),
  }
}

/** A record that `include` embeds, by schema name. */
const includedSchema = (to: Resource): Schemas => ({
  [`Included${capitalize(to.singular)}`]: {
    description: `A ${to.singular} that \`include\` embeds.`,
    ...object({ id: idSchema, ...fieldMembers(to) }),
  },
})

/**
 * The bodies that refer to records of `to`, and the response to a batch of them, by schema name.
 * @param name the name of a batch
 */
function referenceSchemas(to: Resource, name: string, limits: Config['limits']): Schemas {
  const type = capitalize(to.singular)
  const ignored = { description: 'Ignored.' }
  return {
    [`${type}Reference`]: body(`A reference to a ${to.singular}.`, {
      id: idSchema,
      ...Object.fromEntries(Object.keys(to.fields).map(name => [`${name}?`, ignored])),
    }),
    [`${type}References`]: batchRequest(name, `${type}Reference`, 'added', limits),
    [`Added${capitalize(name)}`]: batchResponse(name, {
      counted: 'created',
      succeeded: ref(type),
      failed: { 'id?': idSchema },
      codes: [...entryCodes, `${to.singular}_not_found`, 'limit_exceeded'],
    }),
    [`Removed${capitalize(name)}`]: deletedResponse(name, 'membership_not_found'),
  }
}

/** The schemas that do not depend on a resource, by name. */
function commonSchemas(): Schemas {
  const link = { type: 'string', format: 'uri-reference' }
  const codes = Object.entries(statuses).flatMap(([code, status]) => (status === 400 ? [code] : []))
  return {
    Meta: { description: 'Repeats the HTTP status.', ...object({ status: status(200) }) },
    PageMeta: {
      description: 'The counts are exact. They come from the same database snapshot as the records.',
      ...object({
        ...success,
        total_records: integer(0),
        start_index: integer(0),
        records_per_page: integer(1),
        links: object({ 'next?': link, 'prev?': link }),
      }),
    },
    Removed: object({ meta: object(success) }),
    Fault: {
      description: 'A fault in a field or a parameter of the request.',
      ...object({
        'field?': text,
        'parameter?': text,
        code: codeOf(codes),
        message: text,
      }),
    },
  }
}

export function schemasOf(resources: readonly Resource[], limits: Config['limits']): Record<string, Schema> {
  const schemas = resources.flatMap(resource => [
    recordSchemas(resource),
    recordBodies(resource, limits),
    ...resource.relations.flatMap(({ to, name }) => [
      includedSchema(to),
      referenceSchemas(to, name, limits),
      referenceSchemas(resource, resource.plural, limits),
    ]),
  ])
  return Object.fromEntries([commonSchemas(), ...schemas].flatMap(part => Object.entries(part)))
}
