// The bodies that the document shows: written by the code that answers requests, so that they cannot differ from it.
import { ApiError } from '../../core/api-error.ts'
import { collectionText, embeddedText, recordText } from '../../model/representation.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import { batchText, failed } from '../requests/batch.ts'
import { notFound } from '../resources/handler.ts'
import { listMeta } from '../resources/page-meta.ts'

const EXAMPLE_ID = 1

export const exists = ({ singular }: Resource): ApiError =>
  new ApiError(`${singular}_exists`, `${singular} already exists`)

/** The fields of a record, as a body that creates it has them. */
export const fields = (resource: Resource): Record<string, string> =>
  Object.fromEntries(Object.entries(resource.fields).map(([name, { example }]) => [name, example]))

const row = (resource: Resource) => ({ id: EXAMPLE_ID, ...fields(resource) })

/** @param relation what it includes, if it does */
export function record(resource: Resource, relation?: Relation): unknown {
  const included = relation && `[${embeddedText(relation.to, row(relation.to))}]`
  return JSON.parse(recordText(resource, row(resource), included))
}

/** A page with one record. @param path of the collection */
export function page(resource: Resource, path: string, recordsPerPage: number): unknown {
  const meta = listMeta(path, { startIndex: 0, recordsPerPage, others: '' }, 1, 1)
  return JSON.parse(collectionText(resource.plural, [recordText(resource, row(resource))], meta))
}

/** The answer to a batch of new records of which the second was there already. */
export function batch(resource: Resource): unknown {
  const created = { text: recordText(resource, row(resource)), result: 'created' } as const
  return JSON.parse(batchText(resource.plural, [created, failed(exists(resource), fields(resource))]))
}

/** The answer to a batch of references of which the second leads nowhere. */
export function additions({ name, to }: Relation): unknown {
  const added = { text: recordText(to, row(to)), result: 'created' } as const
  const unknown = EXAMPLE_ID + 1
  return JSON.parse(batchText(name, [added, failed(notFound(to, unknown), { id: unknown })]))
}

export const reference = { id: EXAMPLE_ID }

export const removed = (message: string): unknown => ({ meta: { status: 200, message } })
