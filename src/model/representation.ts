// The JSON text of records. It is built as text because the cache stores embedded records as text.
import type { Resource } from './resource.ts'

type Record = Readonly<{ [field: string]: unknown }>

/** Returns the members of the JSON object, `"id":1,"name":"…"`. Missing fields are omitted. */
function members(resource: Resource, record: Record): string {
  let text = `"id":${record.id}`
  for (const field of Object.keys(resource.fields)) {
    const value = record[field]
    if (typeof value === 'string') text += `,"${field}":${JSON.stringify(value)}`
  }
  return text
}

/** Returns the JSON of a record that is embedded in another one. */
export function embeddedText(resource: Resource, record: Record): string {
  return `{${members(resource, record)}}`
}

/**
 * Returns the JSON of a record as a response or an element of a list.
 * @param included the JSON text of an array
 */
export function recordText(resource: Resource, record: Record, included?: string): string {
  const embedded = included === undefined ? '' : `,"${resource.relation?.name}":${included}`
  return `{${members(resource, record)}${embedded},"meta":{"status":200}}`
}

/** Returns the JSON of a collection. @param meta `status`, `message` and the counts */
export function collectionText(name: string, records: readonly string[], meta: object): string {
  return `{"${name}":[${records.join(',')}],"meta":${JSON.stringify(meta)}}`
}
