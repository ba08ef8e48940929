// Reads users from a CSV file. The file is read twice: the first pass validates it, so that an invalid file is
// rejected before any of its rows is stored.
import { type CsvFormat, detectFormat, type Row, rowsOf } from './csv-rows.ts'
import { type InvalidRow, notUtf8, type Person, type Source, userFields } from './source.ts'

const columns: readonly string[] = [...userFields, 'groups']

/** @throws Error if a column is missing, unknown or duplicate */
function checkHeader(header: readonly string[]): void {
  const isEachKnown = header.every((name, at) => columns.includes(name) && header.indexOf(name) === at)
  if (isEachKnown && userFields.every(name => header.includes(name))) return
  throw new Error(
    `line 1: the columns must be ${userFields.join(', ')} and optionally groups, separated by commas, semicolons or tabs, but are ${header.join(', ') || 'missing'}`,
  )
}

/**
 * Reads the whole file and validates its encoding, its quotes and its header.
 * @returns the header
 * @throws Error with the line of the fault
 */
async function validate(file: string, format: CsvFormat): Promise<readonly string[]> {
  let header: readonly string[] | undefined
  for await (const { cells, line } of rowsOf(file, format)) {
    if (header === undefined) checkHeader(cells)
    if (cells.some(cell => cell.includes('\ufffd'))) throw notUtf8(line)
    header ??= cells
  }
  if (header === undefined) checkHeader([])
  return header ?? []
}

function readRow(
  { cells, line, bytes }: Row,
  header: readonly string[],
  format: CsvFormat,
): Person | InvalidRow {
  const entry = { place: `line ${line}`, share: bytes / format.size }
  if (cells.length !== header.length) {
    const fault = `${cells.length} columns instead of ${header.length}: a value with a separator must be in quotes`
    return { ...entry, fault }
  }
  const cell = (name: string) => cells[header.indexOf(name)] ?? ''
  const groups = cell('groups')
    .split(';')
    .map(name => name.trim())
  return {
    ...entry,
    fields: Object.fromEntries(userFields.map(name => [name, cell(name)])),
    groups: groups.filter(name => name !== ''),
  }
}

/** @throws Error with the line of the fault */
export async function readCsv(file: string): Promise<Source> {
  const format = await detectFormat(file)
  const header = await validate(file, format)
  async function* users(): AsyncGenerator<Person | InvalidRow> {
    const rows = rowsOf(file, format)
    await rows.next()
    for await (const row of rows) yield readRow(row, header, format)
  }
  return { groups: [], users: users() }
}
