// The JSON text of records. It is built as text because the cache stores embedded records as text.
import { hash } from 'node:crypto'
import { isObject, type JsonObject } from '../core/json-object.ts'
import type { Resource } from './resource.ts'
import { readField } from './row.ts'

/** Must be increased with every change to the JSON text of a record that its list of fields does not show. */
const FORMAT_VERSION = 1

/**
 * Identifies how the records of `resource` are written: `<format version>:<hash of the lists of fields>`. ETags and the
 * keys of cached texts contain it, so that different versions of the code can share clients and a cache.
 */
export function representationOf(resource: Resource): string {
  const related = resource.relations.map(({ name, to }) => [name, ...Object.keys(to.fields)])
  const lists = [Object.keys(resource.fields), ...related]
  return `${FORMAT_VERSION}:${hash('sha256', JSON.stringify(lists), 'base64url').slice(0, 8)}`
}

/** Returns the members of the JSON object, `"id":1,"name":"…"`. Missing fields are omitted. @throws TypeError of `readField` */
function members(resource: Resource, record: JsonObject): string {
  let text = `"id":${record.id}`
  for (const field of Object.keys(resource.fields)) {
    const value = readField(resource, field, record)
    if (value !== null) text += `,"${field}":${JSON.stringify(value)}`
  }
  return text
}

/** Returns the JSON of a record that is embedded in another one. */
export function embeddedText(resource: Resource, record: JsonObject): string {
  return `{${members(resource, record)}}`
}

/**
 * Returns the JSON of a record as a response or an element of a list.
 * @param included the members of the JSON object with the included records, `"groups":[…]`
 */
export function recordText(resource: Resource, record: JsonObject, included?: string): string {
  const embedded = included === undefined ? '' : `,${included}`
  return `{${members(resource, record)}${embedded},"meta":{"status":200}}`
}

/** Returns the JSON of a collection. @param meta `status`, `message` and the counts */
export function collectionText(name: string, records: readonly string[], meta: object): string {
  return `{"${name}":[${records.join(',')}],"meta":${JSON.stringify(meta)}}`
}

/** Whether a text from outside is the JSON of an array of objects with ids, as embedded records are. */
export function isListOfRecords(text: string): boolean {
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) && list.every(one => isObject(one) && Number.isSafeInteger(one.id))
  } catch {
    return false
  }
}
