// Writes the introduction of the document in Markdown: first requests, responses, filters, retries
// and limits. The examples come from the resource definitions and from the code that handles requests.
import type { Config } from '../../config/config.ts'
import { MAX_FAULTS } from '../../core/api-error.ts'
import { securityHeaders } from '../../core/response-headers.ts'
import { type LimitedRelation, limitedRelations, type Resource } from '../../model/resource.ts'
import { unpagedRecords } from '../requests/query.ts'
import { fieldsExample, pageExample, recordExample, referenceExample } from './examples.ts'
import { operatorTable } from './parameters.ts'

/** The address in the examples. The documentation page replaces it with the address of the server. */
const ADDRESS = 'http://localhost:8000'

const listText = new Intl.ListFormat('en')

function size(bytes: number): string {
  if (bytes % 2 ** 20 === 0) return `${bytes / 2 ** 20} MiB`
  if (bytes % 2 ** 10 === 0) return `${bytes / 2 ** 10} KiB`
  return `${bytes} bytes`
}

const code = (language: string, ...lines: string[]) =>
  ['```', language, '\n', lines.join('\n'), '\n```'].join('')

/** Returns a function that writes a curl command. A request with a body is a POST. */
const curl =
  (needsCaller: boolean) =>
  (path: string, body?: unknown): string => {
    const url = /[?[]/.test(path) ? `'${ADDRESS}${path}'` : `${ADDRESS}${path}`
    const options = [
      ...(needsCaller ? [`-H "Authorization: Bearer $TOKEN"`] : []),
      ...(body === undefined ? [] : [`-H 'Content-Type: application/json'`, `-d '${JSON.stringify(body)}'`]),
    ]
    // Without -g, curl gives brackets in a URL a meaning of its own.
    return [`curl -s${path.includes('[') ? 'g' : ''} ${url}`, ...options].join(' \\\n  ')
  }

/** The first requests: create a record, relate it to another one, read it with the related records, and find it. */
function firstRequests(
  resource: Resource,
  relation: LimitedRelation,
  limits: Config['limits'],
  needsCaller: boolean,
) {
  const { singular, plural } = resource
  const { name, to } = relation
  const command = curl(needsCaller)
  const json = (value: unknown) => code('json', JSON.stringify(value))
  const [[field, value] = ['id', '1']] = Object.entries(fieldsExample(to))
  const search = `/v1/${plural}?${name}[*].${field}=${value}&sort=-id`
  return `## First requests

Create a ${singular}:

${code('sh', command(`/v1/${plural}`, fieldsExample(resource)))}

${json(recordExample(resource))}

Create a ${to.singular}, and add the ${singular} to it:

${code('sh', command(`/v1/${to.plural}`, fieldsExample(to)), command(`/v1/${plural}/1/${name}`, referenceExample))}

Read the ${singular} with its ${name}:

${code('sh', command(`/v1/${plural}/1?include=${name}`))}

${json(recordExample(resource, relation))}

List the ${plural} of all ${name} with this ${field}, the newest ${singular} first:

${code('sh', command(search))}

${json(pageExample(resource, `/v1/${plural}`, unpagedRecords(limits)))}`
}

/** What all filters have in common, described once. */
function filters(resource: Resource, { name, to }: LimitedRelation): string {
  const { singular, plural } = resource
  const column = Object.keys(resource.fields).at(-1) ?? 'id'
  const [[field, value] = ['id', '1']] = Object.entries(fieldsExample(to))
  return `## Filters

You can filter by every field of a record. A page contains the records that match all filters of the request. A request can repeat the same filter with other values.

${operatorTable(resource, column)}

\`${name}[*].\` before a field filters by the ${name} of a ${singular}, with the same operators. \`${name}[*].${field}=${value}\` selects the ${plural} with at least one such ${to.singular}, and \`${name}[*].${field}=!${value}\` selects the ${plural} with none. Texts are compared exactly, code point by code point. After \`=\`, \`\\!x\` is the text \`!x\` and \`\\\\x\` is the text \`\\x\`.`
}

const token =
  'Every request needs a token, except for this document, the documentation page and `OPTIONS`. Send an API key or a JWT as `Authorization: Bearer <token>`. The examples expect the token in the variable `$TOKEN`.'

const responses = `## Responses and errors

A response is a JSON object with a \`meta\` field, except for this document and the documentation page. \`meta.status\` repeats the HTTP status. An error also has \`meta.code\`, a stable code for programs, and \`meta.message\`, a description for people. If parameters or fields are invalid or unknown, \`meta.errors\` lists every fault, up to ${MAX_FAULTS}.

Every path with \`GET\` also supports \`HEAD\`. \`OPTIONS\` returns 204 with the methods of the path in \`Allow\`; another method returns 405. Every response has the headers ${listText.format(Object.keys(securityHeaders).map(name => `\`${name}\``))}.`

const retries = `## Retries and conflicts

With an \`Idempotency-Key\`, a repeated \`POST\` returns the first response and is not executed again. With the \`ETag\` of an earlier response, \`If-None-Match\` avoids the transfer of an unchanged response (304), and \`If-Match\` prevents a write to a record that has changed (412).`

const limitTable = (limits: Config['limits']) => `## Limits

| Part | At most |
|---|---|
| Request body | ${size(limits.bodyBytes)} |
| URL | ${size(limits.urlBytes)} |
| Headers of a request | ${size(limits.headerBytes)} in ${limits.headers} fields |
| Filters of a request | ${limits.filters} |
| Entries of a batch | ${limits.batchEntries} |
| Records of a page | ${limits.recordsPerPage} |
| Page | ${size(limits.responseBytes)}; a larger page is rejected with \`limit_exceeded\` |`

/** Returns the introduction. @param needsCaller whether requests need a token */
export function introduction(
  resources: readonly Resource[],
  limits: Config['limits'],
  needsCaller: boolean,
): string {
  const [example] = resources.flatMap(resource =>
    limitedRelations(resource).map(relation => [
      firstRequests(resource, relation, limits, needsCaller),
      responses,
      filters(resource, relation),
    ]),
  )
  const names = listText.format(resources.map(({ plural }) => plural))
  return [
    `A JSON API for ${names}.`,
    ...(needsCaller ? [token] : []),
    ...(example ?? [responses]),
    retries,
    limitTable(limits),
  ].join('\n\n')
}
