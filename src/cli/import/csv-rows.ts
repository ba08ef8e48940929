// The rows of CSV as RFC 4180 has it and spreadsheets save it, read as a stream: the file may be larger than the memory.
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { CsvError, type Info, parse } from 'csv-parse'

/** A quote that is never closed would take in the rest of the file. */
const MAX_RECORD_BYTES = 2 ** 20

export interface Row {
  readonly cells: readonly string[]
  readonly line: number
  /** Of the file, up to its end. */
  readonly bytes: number
}

/** Excel separates by what its language does not write numbers with, and saves "Unicode text" as UTF-16 with tabs. */
export const separators = { '\t': 'a tab', ';': 'a semicolon', ',': 'a comma' } as const
export type Separator = keyof typeof separators

export interface Look {
  readonly separator: Separator
  readonly size: number
}

/** What separates the columns, as the first line shows, and how large the file is. @throws Error where it is no text */
export async function lookAt(file: string): Promise<Look> {
  const handle = await open(file)
  try {
    const { size } = await handle.stat()
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(1024), 0, 1024, 0)
    const isUtf16 = buffer.readUInt16LE(0) === 0xfeff
    const lines = buffer.toString(isUtf16 ? 'utf16le' : 'utf8', 0, bytesRead).split(/[\r\n]+/)
    const header = lines.find(line => line.trim() !== '') ?? ''
    if (/[^\P{Cc}\t]/u.test(header)) throw new Error('this is no text: save a spreadsheet as CSV')
    const separator = (['\t', ';'] as const).find(one => header.includes(one)) ?? ','
    return { separator, size }
  } finally {
    await handle.close()
  }
}

/** @param begin the line on which the row begins that could not be read */
function describe(error: unknown, begin: number): string {
  if (!(error instanceof Error)) return String(error)
  if (!(error instanceof CsvError)) return error.message
  if (error.code === 'CSV_QUOTE_NOT_CLOSED' || error.code === 'CSV_MAX_RECORD_SIZE')
    return `line ${begin}: a quote that is opened from here on is never closed`
  const from = error.lines === begin ? '' : ` (the row begins on line ${begin})`
  return `line ${error.lines}${from}: a quote within a value has to be doubled, and the value in quotes: "Mary ""May"" Smith"`
}

/** All that is no empty line, the header too. @throws Error with the line from which on the rows cannot be told apart */
export async function* rowsOf(file: string, separator: Separator): AsyncGenerator<Row> {
  let begin = 1
  const parser = parse({
    bom: true,
    delimiter: separator,
    max_record_size: MAX_RECORD_BYTES,
    relax_column_count: true,
    skip_empty_lines: true,
    // A spreadsheet saves rows that were cleared.
    skip_records_with_empty_values: true,
    // Spaces around a name are the spreadsheet's, not the person's.
    trim: true,
    info: true,
    // Ahead of who reads the rows: an error overtakes those that wait.
    on_record(cells, { lines }) {
      begin = lines + 1
      return cells
    },
  })
  try {
    // What goes wrong with the file comes out of the parser.
    pipeline(createReadStream(file), parser, () => {})
    const rows: AsyncIterable<{ record: string[]; info: Info }> = parser
    for await (const { record, info } of rows)
      yield { cells: record.map(cell => cell.trim()), line: info.lines, bytes: info.bytes }
  } catch (error) {
    throw new Error(describe(error, begin))
  }
}
