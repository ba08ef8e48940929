// People and groups from JSON: {"groups": ["…"], "users": [{"first_name", "last_name", "groups": ["…"]}]}, read as a whole.
import { readFile, stat } from 'node:fs/promises'
import { printParseErrorCode, visit } from 'jsonc-parser'
import { z } from 'zod'
import type { Source } from './file.ts'

const LARGEST_BYTES = 2 ** 26
const FAULTS_SHOWN = 10

const names = z.array(z.string()).default([])
const schema = z.strictObject({
  source: z.unknown().optional(),
  groups: names,
  users: z.array(z.strictObject({ first_name: z.string(), last_name: z.string(), groups: names })),
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
        const what = printParseErrorCode(code).replaceAll(/\B[A-Z]/g, letter => ` ${letter.toLowerCase()}`)
        throw new Error(`line ${line + 1}, column ${character + 1}: this is not JSON: ${what}`)
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
  if (Array.isArray(value)) throw new Error('line 1: a list of people must be in an object: {"users": […]}')
  const { data, error } = schema.safeParse(value)
  if (data !== undefined) return { ...data, lines }
  const faults = error.issues.map(({ path, message }) => {
    const line = path[0] === 'users' && typeof path[1] === 'number' ? lines[path[1]] : undefined
    return `${line === undefined ? '' : `line ${line}: `}${path.join('.') || 'the file'}: ${message}`
  })
  const more = faults.length > FAULTS_SHOWN ? `; and ${faults.length - FAULTS_SHOWN} more` : ''
  throw new Error(`${faults.slice(0, FAULTS_SHOWN).join('; ')}${more}`)
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
