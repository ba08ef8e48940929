// People from CSV as RFC 4180 has it and spreadsheets save it, read as a stream: the file may be larger than the memory.
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { CsvError, type Info, parse } from 'csv-parse'
import type { Person } from './file.ts'

const columns = ['first_name', 'last_name', 'groups'] as const
const needed = ['first_name', 'last_name']
/** A quote that is never closed would take in the rest of the file. */
const LONGEST_RECORD_BYTES = 2 ** 20

interface Row {
  readonly record: Readonly<Record<string, string>>
  readonly info: Info
}

/** Excel separates by what its language does not write numbers with, and saves "Unicode text" as UTF-16 with tabs. */
const separators = ['\t', ';', ','] as const

/** What separates the columns, as the first line shows, and how large the file is. */
async function lookAt(file: string): Promise<{ separator: string; size: number }> {
  const handle = await open(file)
  try {
    const { size } = await handle.stat()
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(1024), 0, 1024, 0)
    const isUtf16 = buffer.readUInt16LE(0) === 0xfeff
    const [header = ''] = buffer.toString(isUtf16 ? 'utf16le' : 'utf8', 0, bytesRead).split(/[\r\n]/, 1)
    return { separator: separators.find(one => header.includes(one)) ?? ',', size }
  } finally {
    await handle.close()
  }
}

/** @throws Error where a column is missing, or would be lost */
function checkHeader(header: readonly string[]): string[] {
  if (header.some(name => /\p{Cc}/u.test(name))) throw new Error('this is no text: save a spreadsheet as CSV')
  const known: readonly string[] = columns
  if (needed.every(name => header.includes(name)) && header.every(name => known.includes(name)))
    return [...header]
  throw new Error(
    `line 1: the columns must be first_name, last_name and, if wanted, groups, separated by commas, semicolons or tabs, but are ${header.join(', ') || 'missing'}`,
  )
}

/** What is wrong, in our words where csv-parse's say too little. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (!(error instanceof CsvError)) return error.message
  if (error.code === 'CSV_QUOTE_NOT_CLOSED') return 'a quote that is opened is never closed'
  if (error.code === 'CSV_RECORD_INCONSISTENT_COLUMNS')
    return `line ${error.lines}: not as many columns as in line 1; a value with a separator in it has to be in quotes`
  return error.message
}

/** @throws Error that names the file and the line of what is wrong */
export async function* readCsv(file: string): AsyncGenerator<Person> {
  let hasHeader = false
  const { separator, size } = await lookAt(file)
  const parser = parse({
    bom: true,
    delimiter: separator,
    columns(header: readonly string[]) {
      hasHeader = true
      return checkHeader(header)
    },
    info: true,
    max_record_size: LONGEST_RECORD_BYTES,
    skip_empty_lines: true,
  })
  try {
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
    throw new Error(`${file}: ${describe(error)}`)
  }
}
