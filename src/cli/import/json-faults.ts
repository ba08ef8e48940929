// Says what is wrong with a JSON file: where it is, what it has to be, and what it is instead.
import { z } from 'zod'
import { quoted } from './source.ts'

const FAULTS_SHOWN = 10

const comma = 'is missing here, or there is a comma too many before it'
const backslash = 'a backslash is followed by what has no meaning: one that stands for itself is doubled'

/** By what jsonc-parser calls them. */
const syntaxFaults: Readonly<Record<string, string>> = {
  InvalidSymbol: 'a text has to be in double quotes, and nothing but true, false and null is a word',
  PropertyNameExpected: `the name of a field, in double quotes, ${comma}`,
  ValueExpected: `a value ${comma}`,
  ColonExpected: 'a colon is missing here',
  CommaExpected: 'a comma is missing here',
  CloseBraceExpected: 'a } is missing here',
  CloseBracketExpected: 'a ] is missing here',
  EndOfFileExpected: 'the file has to end here',
  InvalidCommentToken: 'there are no comments in JSON',
  UnexpectedEndOfString: 'the text that begins here is not closed on its line',
  InvalidUnicode: backslash,
  InvalidEscapeCharacter: backslash,
  InvalidCharacter: 'the text that begins here has a tab or the like in it: as \\t it may be there',
}

/** @param code as jsonc-parser prints it */
export function describeSyntaxFault(code: string): string {
  return `this is not JSON: ${syntaxFaults[code] ?? 'this is no value'}`
}

const types: Readonly<Record<string, string>> = {
  array: 'a list in [ ]',
  object: 'an object in { }',
  string: 'a text in " "',
}

function typeOf(value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : typeof value === 'string' ? 'a text' : `a ${typeof value}`
}

/** In place of the words of the schema library. */
export function phrase(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'unrecognized_keys' && issue.inst instanceof z.ZodObject)
    return `may have ${Object.keys(issue.inst.shape).join(', ')}, but has ${issue.keys.map(quoted).join(', ')}`
  if (issue.code !== 'invalid_type') return undefined
  const wanted = `must be ${types[issue.expected] ?? issue.expected}`
  return issue.input === undefined ? `is missing, and ${wanted}` : `${wanted}, but is ${typeOf(issue.input)}`
}

/** Such as `users[3].first_name`. */
function placeOf(path: readonly PropertyKey[]): string {
  const parts = path.map(part => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
  return parts.join('').slice(1) || 'the file'
}

/**
 * Every fault with its place, the first ones in full.
 * @param lines that the entries of `users` begin on
 */
export function describeFaults(issues: readonly z.core.$ZodIssue[], lines: readonly number[]): string {
  const shown = issues.slice(0, FAULTS_SHOWN).map(({ path, message }) => {
    const line = path[0] === 'users' && typeof path[1] === 'number' ? lines[path[1]] : undefined
    return `${line === undefined ? '' : `line ${line}: `}${placeOf(path)} ${message}`
  })
  const [only] = shown
  if (shown.length === 1 && only !== undefined) return only
  const more = issues.length - shown.length
  return [`${issues.length} faults`, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n  ')
}
