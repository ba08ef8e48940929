// Reads users and groups from a JSON file as a whole:
// {"groups": ["…"], "users": [{"first_name", "last_name", "groups": ["…"]}]}
import { readFile, stat } from 'node:fs/promises'
import { printParseErrorCode, visit } from 'jsonc-parser'
import * as z from 'zod'
import { toDotPath } from 'zod/v4/core'
import { quoted } from '../../core/quoted.ts'
import { notUtf8, type Source, userFields } from './source.ts'

const MAX_BYTES = 2 ** 26
const MAX_FAULTS = 10

const names = z.array(z.string()).default([])

/** An object without other fields than these. */
const strict = <T extends z.ZodRawShape>(shape: T) =>
  z.strictObject(shape, {
    error: issue =>
      issue.code === 'unrecognized_keys'
        ? `Unknown field ${issue.keys.map(quoted).join(', ')}; allowed: ${Object.keys(shape).join(', ')}`
        : undefined,
  })

const person = strict({
  ...Object.fromEntries(userFields.map(name => [name, z.string()])),
  groups: names,
}).transform(({ groups, ...fields }) => ({ groups, fields }))
const schema = strict({ source: z.unknown().optional(), groups: names, users: z.array(person) })

/**
 * @returns the line on which each entry of `users` begins.
 * @throws Error with the line and column of a syntax error
 */
function linesOf(text: string): number[] {
  const lines: number[] = []
  visit(
    text,
    {
      onObjectBegin(_offset, _length, line, _character, path) {
        const [list, index, ...deeper] = path()
        if (list === 'users' && typeof index === 'number' && deeper.length === 0) lines[index] = line + 1
      },
      onError(code, _offset, _length, line, character) {
        // The parser names its errors in camel case: CommaExpected.
        const fault = printParseErrorCode(code)
          .replace(/\B[A-Z]/g, ' $&')
          .toLowerCase()
        throw new Error(`line ${line + 1}, column ${character + 1}: invalid JSON: ${fault}`)
      },
    },
    { disallowComments: true },
  )
  return lines
}

/**
 * Describes the first faults, each with its place, and counts the others.
 * @param lines the line on which each entry of `users` begins
 */
function describeFaults({ issues }: z.ZodError, lines: readonly number[]): string {
  const shown = issues.slice(0, MAX_FAULTS).map(({ path, message }) => {
    const line = path[0] === 'users' && typeof path[1] === 'number' ? lines[path[1]] : undefined
    return `${line === undefined ? '' : `line ${line}: `}${toDotPath(path) || 'the file'}: ${message}`
  })
  if (issues.length === 1) return shown.join()
  const more = issues.length - shown.length
  return [`${issues.length} faults`, ...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n  ')
}

function parse(text: string) {
  const invalid = text.indexOf('\ufffd')
  if (invalid !== -1) throw notUtf8(text.slice(0, invalid).split('\n').length)
  const lines = linesOf(text)
  const value: unknown = JSON.parse(text)
  const { data, error } = schema.safeParse(value)
  if (data === undefined) throw new Error(describeFaults(error, lines))
  return { ...data, lines }
}

/** @throws Error with the place of every fault in the file */
export async function readJson(file: string): Promise<Source> {
  if ((await stat(file)).size > MAX_BYTES)
    throw new Error(`larger than ${MAX_BYTES / 2 ** 20} MiB: convert it to CSV, which has no size limit`)
  const { groups, users, lines } = parse((await readFile(file, 'utf8')).replace(/^\ufeff/, ''))
  const people = users.map((user, index) => ({
    ...user,
    line: lines[index] ?? 0,
    share: (index + 1) / users.length,
  }))
  return { groups, people }
}
