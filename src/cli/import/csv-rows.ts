// Reads the rows of a CSV file, as RFC 4180 defines it and as spreadsheets save it. The file is streamed, because it
// can be larger than the memory.
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { CsvError, type Info, parse } from 'csv-parse'

/** Without a limit, a quote that is never closed would buffer the rest of the file. */
const MAX_RECORD_BYTES = 2 ** 20
const HEADER_BYTES = 1024

export interface Row {
  readonly cells: readonly string[]
  readonly line: number
  /** The number of bytes from the beginning of the file to the end of the row. */
  readonly bytes: number
}

/**
 * Detects the separator from the first line that is not blank. Excel uses a semicolon if its locale has a decimal comma, and
 * saves "Unicode text" as UTF-16 with tabs.
 * @returns the separator, the line breaks, and the size of the file in bytes
 * @throws Error if the file is not a text file
 */
export async function detectFormat(file: string) {
  const handle = await open(file)
  try {
    const { size } = await handle.stat()
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
    const isUtf16 = buffer.readUInt16LE(0) === 0xfeff
    const start = buffer.toString(isUtf16 ? 'utf16le' : 'utf8', 0, bytesRead)
    const header = start.split(/[\r\n]+/).find(line => line.trim() !== '') ?? ''
    if (/[^\P{Cc}\t]/u.test(header)) throw new Error('not a text file: save a spreadsheet as CSV')
    const separator = ['\t', ';'].find(one => header.includes(one)) ?? ','
    // A file that is made of several can have different ones. A single CR is one in files of old Macs only: elsewhere, it is a
    // character of a value, which the service refuses.
    const [firstBreak] = /\r\n?|\n/.exec(start) ?? []
    const lineBreaks = firstBreak === '\r' ? ['\r\n', '\n', '\r'] : ['\r\n', '\n']
    return { separator, lineBreaks, size }
  } finally {
    await handle.close()
  }
}
export type CsvFormat = Awaited<ReturnType<typeof detectFormat>>

/**
 * Yields the rows that are not empty, including the header.
 * @throws Error with the line from which the rows cannot be parsed
 */
export async function* rowsOf(
  file: string,
  { separator, lineBreaks }: Pick<CsvFormat, 'separator' | 'lineBreaks'>,
): AsyncGenerator<Row> {
  let firstLine = 1
  const parser = parse({
    bom: true,
    delimiter: separator,
    max_record_size: MAX_RECORD_BYTES,
    record_delimiter: lineBreaks,
    relax_column_count: true,
    // Also empty lines. Spreadsheets save cleared rows as rows of empty values.
    skip_records_with_empty_values: true,
    // Allows spaces before a quote. Those inside quotes are removed below: spaces around a value do not belong to it.
    trim: true,
    info: true,
    // The parser runs ahead of the reader, and its errors overtake the rows in its buffer. The first line of the
    // current row is therefore recorded here and not by the reader.
    on_record(cells, { lines }) {
      firstLine = lines + 1
      return cells
    },
  })
  try {
    // The parser emits the errors of the file stream too.
    pipeline(createReadStream(file), parser, () => {})
    const rows: AsyncIterable<{ record: string[]; info: Info }> = parser
    for await (const { record, info } of rows)
      yield { cells: record.map(cell => cell.trim()), line: info.lines, bytes: info.bytes }
  } catch (error) {
    throw error instanceof CsvError
      ? new Error(`the row that begins on line ${firstLine}: ${error.message}`)
      : error
  }
}
