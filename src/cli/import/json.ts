// Reads users and groups from a JSON file as a whole:
// {"groups": ["…"], "users": [{"first_name", "last_name", "groups": ["…"]}]}
import { readFile, stat } from 'node:fs/promises'
import * as z from 'zod'
import { toDotPath } from 'zod/v4/core'
import { notUtf8, type Source, userFields } from './source.ts'

const MAX_BYTES = 2 ** 26
const MAX_FAULTS = 10

const names = z.array(z.string()).default([])
const person = z
  .strictObject({ ...Object.fromEntries(userFields.map(name => [name, z.string()])), groups: names })
  .transform(({ groups, ...fields }) => ({ groups, fields }))
const schema = z.strictObject({ source: z.unknown().optional(), groups: names, users: z.array(person) })

/** Describes the first faults, each with its place, and counts the others. */
function describeFaults({ issues }: z.ZodError): string {
  const shown = issues
    .slice(0, MAX_FAULTS)
    .map(({ path, message }) => `${toDotPath(path) || 'the file'}: ${message}`)
  const more = issues.length - shown.length
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n  ')
}

/** @throws Error with the places of the first faults in the file */
export async function readJson(file: string): Promise<Source> {
  if ((await stat(file)).size > MAX_BYTES)
    throw new Error(`larger than ${MAX_BYTES / 2 ** 20} MiB: convert it to CSV, which has no size limit`)
  const text = (await readFile(file, 'utf8')).replace(/^\ufeff/, '')
  const invalid = text.indexOf('\ufffd')
  if (invalid !== -1) throw notUtf8(text.slice(0, invalid).split('\n').length)
  const value: unknown = JSON.parse(text)
  const { data, error } = schema.safeParse(value)
  if (data === undefined) throw new Error(describeFaults(error))
  const users = data.users.map((user, index) => ({
    ...user,
    place: `users[${index}]`,
    share: (index + 1) / data.users.length,
  }))
  return { groups: data.groups, users }
}
