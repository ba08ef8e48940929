// What the handlers of the document itself and of the page that shows it do: the operations under their names.
import { ApiError } from '../../core/api-error.ts'
import { parseNoQuery } from '../requests/query.ts'
import { queryFailures } from './examples.ts'
import { object } from './json-schema.ts'
import { ifNoneMatch } from './parameters.ts'
import { failures, json, type Operation, read } from './responses.ts'

const tags = ['Document'] as const
const text = (...types: string[]) => json({ type: 'string' }, {}, ...types)

/** @param files the names of the page's files */
export function describeDocument(files: readonly string[]) {
  const wrong = queryFailures(parseNoQuery)

  const document: Operation = {
    operationId: 'getDocument',
    tags,
    summary: 'Get this document',
    parameters: [ifNoneMatch],
    responses: {
      ...read(
        'OpenAPI 3.1.',
        json(
          {
            ...object({ openapi: { type: 'string' }, info: { type: 'object' }, paths: { type: 'object' } }),
            additionalProperties: true,
          },
          {},
        ),
      ),
      ...failures(wrong),
    },
  }

  const page: Operation = {
    operationId: 'getPage',
    tags,
    summary: 'Get the page that shows this document',
    parameters: [ifNoneMatch],
    responses: {
      ...read('A page to read, search and try out.', text('text/html'), 'Content-Security-Policy'),
      ...failures(wrong),
    },
  }

  const file: Operation = {
    operationId: 'getPageFile',
    tags,
    summary: 'Get a file of that page',
    parameters: [
      {
        name: 'file',
        in: 'path',
        required: true,
        description: 'Its name.',
        schema: { type: 'string', enum: files },
      },
      ifNoneMatch,
    ],
    responses: {
      ...read('The file.', text('text/css', 'text/javascript')),
      ...failures([...wrong, new ApiError('route_not_found', 'there is nothing at /v1/docs/x')]),
    },
  }

  return { document, page, file }
}
