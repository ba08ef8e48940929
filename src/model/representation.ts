// A record as JSON text. Text, not objects, because what `include` embeds comes as text from the cache.
import type { Resource } from './resource.ts'

type Record = Readonly<{ [field: string]: unknown }>

/** `"id":1,"name":"…"`, without what is missing. */
function members(resource: Resource, record: Record): string {
  let text = `"id":${record.id}`
  for (const field of Object.keys(resource.fields)) {
    const value = record[field]
    if (typeof value === 'string') text += `,"${field}":${JSON.stringify(value)}`
  }
  return text
}

/** The record as it stands inside another one. */
export function embeddedText(resource: Resource, record: Record): string {
  return `{${members(resource, record)}}`
}

/** The record as it stands alone, in a collection or in a batch. @param included the JSON text of an array */
export function recordText(resource: Resource, record: Record, included?: string): string {
  const embedded = included === undefined ? '' : `,"${resource.relation?.name}":${included}`
  return `{${members(resource, record)}${embedded},"meta":{"status":200}}`
}

/** A wrapped collection. @param meta says `status`, `message` and the counts */
export function collectionText(name: string, records: readonly string[], meta: object): string {
  return `{"${name}":[${records.join(',')}],"meta":${JSON.stringify(meta)}}`
}
