// Error messages about a JSON file: the place of each fault, the expected value and the actual one.
import { z } from 'zod'
import { quoted } from './source.ts'

const MAX_SHOWN = 10

const extraComma = 'is missing here, or there is an extra comma before it'
const badEscape = 'invalid escape sequence: write a backslash as \\\\'

/** The messages by jsonc-parser's error codes. */
const syntaxFaults: Readonly<Record<string, string>> = {
  InvalidSymbol: 'a string must be in double quotes, and the only bare words are true, false and null',
  PropertyNameExpected: `a field name in double quotes ${extraComma}`,
  ValueExpected: `a value ${extraComma}`,
  ColonExpected: 'a colon is missing here',
  CommaExpected: 'a comma is missing here',
  CloseBraceExpected: 'a } is missing here',
  CloseBracketExpected: 'a ] is missing here',
  EndOfFileExpected: 'the file must end here',
  InvalidCommentToken: 'JSON does not allow comments',
  UnexpectedEndOfString: 'the string that begins here is not closed on its line',
  InvalidUnicode: badEscape,
  InvalidEscapeCharacter: badEscape,
  InvalidCharacter: 'the string that begins here contains a control character: write a tab as \\t',
}

/** @param code the name of a jsonc-parser error code */
export function describeSyntaxFault(code: string): string {
  return `invalid JSON: ${syntaxFaults[code] ?? 'a value is expected here'}`
}

const types: Readonly<Record<string, string>> = {
  array: 'an array',
  object: 'an object',
  string: 'a string',
}

function typeOf(value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (Array.isArray(value)) return 'an array'
  return types[typeof value] ?? `a ${typeof value}`
}

/** Replaces the messages of the schema library. @returns undefined for an issue whose own message is used */
export function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'unrecognized_keys' && issue.inst instanceof z.ZodObject)
    return `must not have ${issue.keys.map(quoted).join(', ')}; allowed: ${Object.keys(issue.inst.shape).join(', ')}`
  if (issue.code !== 'invalid_type') return undefined
  const expected = `must be ${types[issue.expected] ?? issue.expected}`
  return issue.input === undefined
    ? `is missing, and ${expected}`
    : `${expected}, but is ${typeOf(issue.input)}`
}

/** Formats a path, such as `users[3].first_name`. */
function placeOf(path: readonly PropertyKey[]): string {
  const parts = path.map(part => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
  return parts.join('').slice(1) || 'the file'
}

/**
 * Describes the first faults, each with its place, and counts the others.
 * @param lines the line on which each entry of `users` begins
 */
export function describeFaults(issues: readonly z.core.$ZodIssue[], lines: readonly number[]): string {
  const shown = issues.slice(0, MAX_SHOWN).map(({ path, message }) => {
    const line = path[0] === 'users' && typeof path[1] === 'number' ? lines[path[1]] : undefined
    return `${line === undefined ? '' : `line ${line}: `}${placeOf(path)} ${message}`
  })
  const [only] = shown
  if (shown.length === 1 && only !== undefined) return only
  const more = issues.length - shown.length
  return [`${issues.length} faults`, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n  ')
}
