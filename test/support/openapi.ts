// Reads the OpenAPI document of a service and checks responses against it.
import { Ajv2020, type AnySchemaObject } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { ExecutionContext } from 'ava'
import { securityHeaders } from '../../src/core/response-headers.ts'
import type { Answer, Body, Client } from './http.ts'

interface Response {
  $ref?: string
  headers?: Record<string, { $ref: string }>
  content?: Record<string, { schema: AnySchemaObject; examples?: Record<string, { value: Body }> }>
}

export interface Operation {
  operationId: string
  description?: string
  parameters: { name: string; in: string; description?: string; explode?: boolean; schema: AnySchemaObject }[]
  requestBody?: { content: Record<string, { schema: AnySchemaObject }> }
  responses: Record<string, Response>
  security?: Record<string, string[]>[]
}

/** The parts of an OpenAPI document that the tests read. */
export interface Document {
  openapi: string
  servers: { url: string }[]
  info: { description: string }
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, AnySchemaObject>
    headers: Record<string, { required?: boolean; schema: AnySchemaObject }>
    responses: Record<string, Response>
  }
}

export interface DocumentedOperation {
  path: string
  method: string
  operation: Operation
}

const methods = ['get', 'put', 'post', 'delete', 'patch', 'head', 'options', 'trace']

/** Returns the operations of the document, with upper-case methods. */
export const operationsOf = ({ paths }: Document): DocumentedOperation[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => methods.includes(method))
      .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )

/** Disallows properties that a schema does not list, so that a response cannot have undocumented fields. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const copy = Object.fromEntries(Object.entries(value).map(([key, part]) => [key, closed(part)]))
  return 'properties' in copy && copy.type === 'object' ? { additionalProperties: false, ...copy } : copy
}

/** Calls `visit` with each object in a document and its path. */
export function visitObjects(
  value: unknown,
  visit: (object: Readonly<Record<string, unknown>>, path: readonly string[]) => void,
  path: readonly string[] = [],
): void {
  if (typeof value !== 'object' || value === null) return
  const object: Readonly<Record<string, unknown>> = { ...value }
  visit(object, path)
  for (const [key, part] of Object.entries(object)) visitObjects(part, visit, [...path, key])
}

/** Returns the error codes that a response documents. */
export function codesOf(response: Response | undefined): string[] {
  const { schema } = response?.content?.['application/json'] ?? {}
  return schema?.properties?.meta?.properties?.code?.enum ?? []
}

/** Headers of HTTP itself and of every response. The document does not list them per operation. */
const commonHeaders = ['connection', 'content-length', 'content-type', 'date', 'keep-alive'].concat(
  Object.keys(securityHeaders).map(name => name.toLowerCase()),
)

/** @param unicodeRegExp whether patterns are compiled with the flag u, as JSON Schema recommends; not all tools do */
export function createContract(document: Document, unicodeRegExp = true) {
  const ajv = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true, unicodeRegExp })
  addFormats.default(ajv)
  // The document is not a schema, but the base of the references in its schemas: its keys are allowed as keywords.
  ajv.addVocabulary(Object.keys(document))
  ajv.addSchema({ $id: 'document', ...Object(closed(document)) })
  const { components } = document

  /** Validates `value` against the schema at `path` in the document. Returns undefined if it is valid. */
  function faultsAt(path: readonly string[], value: unknown): string | undefined {
    const pointer = path.map(part => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    const validate = ajv.getSchema(`document#/${pointer.join('/')}`)
    if (validate === undefined) throw new Error(`the document has no schema at ${pointer.join('/')}`)
    return validate(value) === true ? undefined : ajv.errorsText(validate.errors)
  }

  function checkHeaders(t: ExecutionContext, documented: string[], { headers, text }: Answer): void {
    const named = new Set(documented.map(name => name.toLowerCase()))
    for (const name of documented) {
      const header = components.headers[name]
      const value = headers[name.toLowerCase()]
      if (header?.required) t.truthy(value, `${name} is missing: ${text}`)
      if (value === undefined) continue
      const typed = header?.schema.type === 'integer' ? Number(value) : value
      t.is(faultsAt(['components', 'headers', name, 'schema'], typed), undefined)
    }
    const others = Object.keys(headers).filter(name => !named.has(name) && !commonHeaders.includes(name))
    t.deepEqual(others, [], text)
  }

  return {
    faultsAt,

    /** Asserts that the document allows this response: under its status, else under `default`. */
    check(t: ExecutionContext, { path, method, operation }: DocumentedOperation, answer: Answer): void {
      const status = operation.responses[answer.status] === undefined ? 'default' : String(answer.status)
      const description = `${method} ${path} ${answer.status}: ${answer.text}`
      const own = ['paths', path, method.toLowerCase(), 'responses', status]
      const common = operation.responses[status]?.$ref?.split('/').slice(1)
      const response =
        common === undefined ? operation.responses[status] : components.responses[common.at(-1) ?? '']
      if (response === undefined) {
        t.fail(description)
        return
      }
      checkHeaders(t, Object.keys(response.headers ?? {}), answer)
      if (response.content === undefined) {
        t.is(answer.text, '', description)
        return
      }
      const type = `${answer.headers['content-type']}`.split(';')[0] ?? ''
      if (response.content[type] === undefined) {
        t.fail(`${type} is not documented: ${description}`)
        return
      }
      const value = type === 'application/json' ? answer.body : answer.text
      t.is(faultsAt([...(common ?? own), 'content', type, 'schema'], value), undefined, description)
    },
  }
}

/** Reads the document of the service of `client`. */
export async function readContract(client: Client) {
  const { text } = await client.get('/v1/openapi.json')
  const document: Document = JSON.parse(text)
  return { text, document, contract: createContract(document), operations: operationsOf(document) }
}
