// A file of people and the groups they are in, whatever its format.
import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { readCsv } from './csv.ts'
import { readJson } from './json.ts'

interface Entry {
  /** Where it ends in the file, counted from 1. */
  readonly line: number
  /** How much of the file is read with it, 0 to 1. */
  readonly share: number
}

export interface Person extends Entry {
  readonly first_name: string
  readonly last_name: string
  /** By name. */
  readonly groups: readonly string[]
}

/** What stands where a person should, and cannot be read as one. */
export interface Misfit extends Entry {
  readonly fault: string
}

export interface Source {
  /** Groups that the file names beside those of its people. */
  readonly groups: readonly string[]
  readonly people: Iterable<Person | Misfit> | AsyncIterable<Person | Misfit>
}

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
