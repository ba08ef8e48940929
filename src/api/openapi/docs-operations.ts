// Describes the operations that return the OpenAPI document and the documentation page.
import { ApiError } from '../../core/api-error.ts'
import { parseNoQuery } from '../requests/query.ts'
import { queryFailures } from './examples.ts'
import { object } from './json-schema.ts'
import { ifNoneMatch, inPath } from './parameters.ts'
import { failures, json, type Operation, read } from './responses.ts'

const tags = ['Document'] as const
const text = (...types: string[]) => json({ type: 'string' }, {}, ...types)

export const fileNotFound = (name: string) =>
  new ApiError('route_not_found', `/v1/docs/${name} does not exist`)

/** @param files the names of the page's files */
export function describeDocument(files: readonly string[]) {
  const invalidQuery = queryFailures(parseNoQuery)

  const parts = { openapi: { type: 'string' }, info: { type: 'object' }, paths: { type: 'object' } }
  const document: Operation = {
    operationId: 'getDocument',
    tags,
    summary: 'Get the OpenAPI document',
    parameters: [ifNoneMatch],
    responses: {
      ...read('The OpenAPI 3.1 document.', json({ ...object(parts), additionalProperties: true }, {})),
      ...failures(invalidQuery),
    },
  }

  const page: Operation = {
    operationId: 'getPage',
    tags,
    summary: 'Get the documentation page',
    description: 'The page shows the OpenAPI document, searches it, and sends requests to this server.',
    parameters: [ifNoneMatch],
    responses: {
      ...read('The documentation page.', text('text/html'), 'Content-Security-Policy'),
      ...failures(invalidQuery),
    },
  }

  const file: Operation = {
    operationId: 'getPageFile',
    tags,
    summary: 'Get a file of the documentation page',
    parameters: [inPath('file', 'The name of the file.', { type: 'string', enum: files }), ifNoneMatch],
    responses: {
      ...read('The file.', text('text/css', 'text/javascript')),
      ...failures([...invalidQuery, fileNotFound('x')]),
    },
  }

  return { document, page, file }
}
