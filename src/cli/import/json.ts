// People and groups from JSON: {"groups": ["…"], "users": [{"first_name", "last_name", "groups": ["…"]}]}, read as a whole.
import { readFile, stat } from 'node:fs/promises'
import { printParseErrorCode, visit } from 'jsonc-parser'
import { z } from 'zod'
import { describeFaults, describeSyntaxFault, phrase } from './json-faults.ts'
import type { Source } from './source.ts'

const LARGEST_BYTES = 2 ** 26

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

/** The lines that the entries of `users` begin on. @throws Error with the line of what is not JSON */
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
        const what = describeSyntaxFault(printParseErrorCode(code))
        throw new Error(`line ${line + 1}, column ${character + 1}: ${what}`)
      },
    },
    { disallowComments: true },
  )
  return lines
}

function parse(text: string) {
  const damaged = text.indexOf('\ufffd')
  if (damaged !== -1) throw new Error(`line ${text.slice(0, damaged).split('\n').length}: this is not UTF-8`)
  const lines = linesOf(text)
  const value: unknown = JSON.parse(text)
  const { data, error } = schema.safeParse(value, { error: phrase })
  if (data === undefined) throw new Error(describeFaults(error.issues, lines))
  return { ...data, lines }
}

/** @throws Error that names the file and every fault in it, with its line */
export async function readJson(file: string): Promise<Source> {
  try {
    if ((await stat(file)).size > LARGEST_BYTES)
      throw new Error(`is over ${LARGEST_BYTES / 2 ** 20} MiB: make it CSV, which may be of any size`)
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
