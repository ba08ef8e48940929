// Reads users and groups from a JSON file as a whole:
// {"groups": ["…"], "users": [{"first_name", "last_name", "groups": ["…"]}]}
import { readFile, stat } from 'node:fs/promises'
import { printParseErrorCode, visit } from 'jsonc-parser'
import { z } from 'zod'
import { describeFaults, describeIssue, describeSyntaxFault } from './json-faults.ts'
import type { Source } from './source.ts'

const MAX_BYTES = 2 ** 26

const people = z.array(
  z.strictObject({
    first_name: z.string(),
    last_name: z.string(),
    groups: z.array(z.string()).default([]),
  }),
)
const schema = z.strictObject({
  source: z.unknown().optional(),
  groups: z.array(z.string()).default([]),
  users: people,
})

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
        const fault = describeSyntaxFault(printParseErrorCode(code))
        throw new Error(`line ${line + 1}, column ${character + 1}: ${fault}`)
      },
    },
    { disallowComments: true },
  )
  return lines
}

function parse(text: string) {
  const invalid = text.indexOf('\ufffd')
  if (invalid !== -1) {
    const line = text.slice(0, invalid).split('\n').length
    throw new Error(`line ${line}: invalid UTF-8: save the file as UTF-8`)
  }
  const lines = linesOf(text)
  const value: unknown = JSON.parse(text)
  const { data, error } = schema.safeParse(value, { error: describeIssue })
  if (data === undefined) throw new Error(describeFaults(error.issues, lines))
  return { ...data, lines }
}

/** @throws Error with the file, and the place of every fault in it */
export async function readJson(file: string): Promise<Source> {
  try {
    if ((await stat(file)).size > MAX_BYTES)
      throw new Error(`larger than ${MAX_BYTES / 2 ** 20} MiB: convert it to CSV, which has no size limit`)
    const { groups, users, lines } = parse((await readFile(file, 'utf8')).replace(/^\ufeff/, ''))
    const people = users.map((user, index) => ({
      ...user,
      line: lines[index] ?? 0,
      share: (index + 1) / users.length,
    }))
    return { groups, people }
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`)
  }
}
