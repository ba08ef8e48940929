// Fills in introduction.md, the introduction of the document: `{{name}}` stands for a value of the settings or of the code.
// A test runs its commands and compares the responses with those that it shows.
import { readFileSync } from 'node:fs'
import type { Config } from '../../config/config.ts'
import { MAX_FAULTS } from '../../core/api-error.ts'
import { securityHeaders } from '../../core/response-headers.ts'
import type { Resource } from '../../model/resource.ts'
import { defaultRecordsPerPage } from '../requests/query.ts'

const template = readFileSync(new URL('introduction.md', import.meta.url), 'utf8').trimEnd()

/** What only an API with callers needs: the header with the token in each command, and the paragraph about the token. */
const aboutTokens = / \\\n {2}-H "Authorization: Bearer \$TOKEN"|.*`\$TOKEN`\.\n\n/g

const listText = new Intl.ListFormat('en')

function size(bytes: number): string {
  if (bytes % 2 ** 20 === 0) return `${bytes / 2 ** 20} MiB`
  if (bytes % 2 ** 10 === 0) return `${bytes / 2 ** 10} KiB`
  return `${bytes} bytes`
}

/** Returns the introduction in Markdown. @param needsCaller whether requests need a token */
export function introduction(
  resources: readonly Resource[],
  limits: Config['limits'],
  needsCaller: boolean,
): string {
  const values: Readonly<Record<string, unknown>> = {
    ...limits,
    bodyBytes: size(limits.bodyBytes),
    urlBytes: size(limits.urlBytes),
    headerBytes: size(limits.headerBytes),
    responseBytes: size(limits.responseBytes),
    defaultRecordsPerPage: defaultRecordsPerPage(limits),
    maxFaults: MAX_FAULTS,
    resources: listText.format(resources.map(({ plural }) => plural)),
    securityHeaders: listText.format(Object.keys(securityHeaders).map(name => `\`${name}\``)),
  }
  const text = needsCaller ? template : template.replaceAll(aboutTokens, '')
  return text.replaceAll(/{{(\w+)}}/g, (_, name: string) => {
    if (values[name] === undefined) throw new Error(`introduction.md: there is no value ${name}`)
    return `${values[name]}`
  })
}
