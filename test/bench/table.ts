// Formats figures as a Markdown table and writes the table between two markers of a file.
import { readFile, writeFile } from 'node:fs/promises'

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

export const formatRate = (perSecond: number): string => number.format(perSecond)
export const formatMs = (ms: number): string => ms.toFixed(ms < 10 ? 2 : 0)
export const formatRatio = (ratio: number): string => `${ratio.toFixed(2)} ×`

/** @param rows the first row is the header */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map(row => (row[column] ?? '').length)))
  const line = (cells: readonly string[], filler = ' ') =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0, filler)).join(' | ')} |`
  const [header = [], ...body] = rows
  const rule = line(
    widths.map(() => ''),
    '-',
  )
  return [line(header), rule, ...body.map(row => line(row))].join('\n')
}

/**
 * Replaces the text between `<!-- name:begin -->` and `<!-- name:end -->` with `text`.
 * @throws Error if the file has no such markers
 */
export async function writeBetweenMarkers(file: URL, name: string, text: string): Promise<void> {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`]
  const content = await readFile(file, 'utf8')
  const [from, to] = [content.indexOf(begin), content.indexOf(end)]
  if (from === -1 || to < from) throw new Error(`${file.pathname} has no markers ${begin} and ${end}`)
  await writeFile(file, `${content.slice(0, from + begin.length)}\n\n${text}\n\n${content.slice(to)}`)
}
