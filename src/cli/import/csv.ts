// People from CSV. It is read twice, so that a file that is not what it seems is refused before anything of it is stored.
import { type Look, lookAt, type Row, rowsOf, type Separator, separators } from './csv-rows.ts'
import type { InvalidRow, Person, Source } from './source.ts'

const columns: readonly string[] = ['first_name', 'last_name', 'groups']
const needed = ['first_name', 'last_name']

/** @throws Error where a column is missing, or would be lost */
function checkHeader(header: readonly string[]): void {
  const isEachKnown = header.every((name, at) => columns.includes(name) && header.indexOf(name) === at)
  if (isEachKnown && needed.every(name => header.includes(name))) return
  throw new Error(
    `line 1: the columns must be first_name, last_name and, if wanted, groups, separated by commas, semicolons or tabs, but are ${header.join(', ') || 'missing'}`,
  )
}

/** @returns the header. @throws Error where the file as a whole is not what it seems */
async function survey(file: string, separator: Separator): Promise<readonly string[]> {
  let header: readonly string[] | undefined
  let rows = 0
  const misfits: number[] = []
  for await (const { cells, line } of rowsOf(file, separator)) {
    if (header === undefined) checkHeader(cells)
    if (cells.some(cell => cell.includes('\ufffd'))) throw new Error(`line ${line}: this is not UTF-8`)
    header ??= cells
    rows++
    if (cells.length !== header.length) misfits.push(line)
  }
  if (header === undefined) checkHeader([])
  if (misfits.length > Math.max(1, (rows - 1) / 2))
    throw new Error(
      `line ${misfits[0]} and most others: not as many columns as in line 1, where ${separators[separator]} separates them`,
    )
  return header ?? []
}

function readRow({ cells, line, bytes }: Row, header: readonly string[], look: Look): Person | InvalidRow {
  const place = { line, share: bytes / look.size }
  const separator = separators[look.separator]
  const [has, wanted] = [cells.length, header.length]
  if (has > wanted)
    return {
      ...place,
      fault: `${has} columns, not ${wanted}: a value with ${separator} in it has to be in quotes`,
    }
  if (has < wanted)
    return { ...place, fault: `${has} of ${wanted} columns: an empty one needs ${separator}, too` }
  const cell = (name: string) => cells[header.indexOf(name)] ?? ''
  const groups = cell('groups')
    .split(';')
    .map(name => name.trim())
  return {
    ...place,
    first_name: cell('first_name'),
    last_name: cell('last_name'),
    groups: groups.filter(name => name !== ''),
  }
}

async function* peopleOf(
  file: string,
  look: Look,
  header: readonly string[],
): AsyncGenerator<Person | InvalidRow> {
  let isHeader = true
  for await (const row of rowsOf(file, look.separator)) {
    if (!isHeader) yield readRow(row, header, look)
    isHeader = false
  }
}

/** @throws Error that names the file and the line of what is wrong */
export async function readCsv(file: string): Promise<Source> {
  try {
    const look = await lookAt(file)
    const header = await survey(file, look.separator)
    return { groups: [], people: peopleOf(file, look, header) }
  } catch (error) {
    throw new Error(`${file}: ${error instanceof Error ? error.message : error}`)
  }
}
