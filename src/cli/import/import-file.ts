// Opens a file of users and groups in the format that its name extension indicates.
import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { readCsv } from './csv.ts'
import { readJson } from './json.ts'
import type { Source } from './source.ts'

/** @throws Error with the file and, for a fault in its content, the line */
export async function openSource(file: string): Promise<Source> {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new Error(`${file} does not exist`)
  if (found.isDirectory()) throw new Error(`${file} is a folder`)
  const type = extname(file).toLowerCase()
  if (type !== '.json' && type !== '.csv')
    throw new Error(`${file} must end in .json or .csv: save a spreadsheet as CSV`)
  try {
    return await (type === '.json' ? readJson(file) : readCsv(file))
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`)
  }
}
