// What every parameter of the document is built with.
import type { Schema } from './json-schema.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'query' | 'path' | 'header'
  readonly [keyword: string]: unknown
}

export const inQuery = (name: string, description: string, schema: Schema): Parameter => ({
  name,
  in: 'query',
  description,
  schema,
})

/** Values that stand in one parameter, between commas. */
export const listInQuery = (
  name: string,
  description: string,
  items: Schema,
  example: unknown[],
): Parameter => ({
  ...inQuery(name, description, { type: 'array', items, examples: [example] }),
  style: 'form',
  explode: false,
})
