// A file of people and the groups they are in, whatever its format.
import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { readCsv } from './csv.ts'
import { readJson } from './json.ts'
import type { Source } from './source.ts'

/** @throws Error that names the file, the line and what is wrong there */
export async function openSource(file: string): Promise<Source> {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new Error(`there is no file ${file}`)
  if (found.isDirectory()) throw new Error(`${file} is a folder`)
  switch (extname(file).toLowerCase()) {
    case '.json':
      return readJson(file)
    case '.csv':
      return readCsv(file)
    default:
      throw new Error(`${file} must be named .json or .csv: save a spreadsheet as CSV`)
  }
}
