// People from CSV as RFC 4180 has it, read as a stream: the file may be larger than the memory.
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { type Info, parse } from 'csv-parse'
import type { Person } from './file.ts'

const columns = ['first_name', 'last_name', 'groups'] as const
const needed = ['first_name', 'last_name']
/** A quote that is never closed would take in the rest of the file. */
const LONGEST_RECORD_BYTES = 2 ** 20

interface Row {
  readonly record: Readonly<Record<string, string>>
  readonly info: Info
}

/** @throws Error where a column is missing, or would be lost */
function checkHeader(header: readonly string[]): string[] {
  const known: readonly string[] = columns
  if (needed.every(name => header.includes(name)) && header.every(name => known.includes(name)))
    return [...header]
  throw new Error(
    `line 1: the columns must be first_name,last_name and, if wanted, groups, separated by commas, but are ${header.join() || 'missing'}`,
  )
}

/** @throws Error that names the file and the line of what is wrong */
export async function* readCsv(file: string): AsyncGenerator<Person> {
  let hasHeader = false
  const parser = parse({
    bom: true,
    columns(header: readonly string[]) {
      hasHeader = true
      return checkHeader(header)
    },
    info: true,
    max_record_size: LONGEST_RECORD_BYTES,
    skip_empty_lines: true,
  })
  try {
    const { size } = await stat(file)
    // What goes wrong with the file comes out of the parser.
    pipeline(createReadStream(file), parser, () => {})
    const rows: AsyncIterable<Row> = parser
    for await (const { record, info } of rows) {
      const { first_name = '', last_name = '', groups = '' } = record
      if ([first_name, last_name, groups].some(text => text.includes('\ufffd')))
        throw new Error(`line ${info.lines}: this is not UTF-8`)
      const names = groups.split(';').map(name => name.trim())
      yield {
        line: info.lines,
        // Spaces around a name are the spreadsheet's, not the person's.
        first_name: first_name.trim(),
        last_name: last_name.trim(),
        groups: names.filter(name => name !== ''),
        share: info.bytes / size,
      }
    }
    if (!hasHeader) checkHeader([])
  } catch (error) {
    // csv-parse names the line itself.
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`)
  }
}
