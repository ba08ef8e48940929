// Formats tables for a terminal. A table is not wider than the terminal, unless its narrowest columns need more. Each character
// counts as one column.
import { styleText } from 'node:util'

/** A column of a table with one row for each `T`. */
export interface Column<T> {
  readonly title: string
  readonly cell: (item: T) => string | number | Cell
  /** Numbers are aligned to the right. */
  readonly align?: 'right'
  /** Shown only if the terminal is wide enough for every column. */
  readonly optional?: true
  /** Cut only after all other columns: it tells the rows apart. */
  readonly key?: true
}

export interface Cell {
  readonly text: string
  readonly color?: 'green' | 'yellow' | 'red' | undefined
}

export interface Screen {
  readonly columns: number
  readonly hasColors: boolean
}

const GAP = '  '
const MIN_WIDTH = 4

/** Replaces control characters: some texts come from other machines, and could control the terminal. */
const printable = (text: string): string => text.replace(/\p{Cc}/gu, '?')

const widthOf = (text: string): number => [...text].length
const totalOf = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1))

/** Reduces the widest columns until the row fits, key columns last, but none below MIN_WIDTH. */
function shrink(columns: readonly { width: number; key: true | undefined }[], available: number): number[] {
  const result = columns.map(({ width }) => width)
  for (let excess = totalOf(result) - available; excess > 0; excess--) {
    const others = result.map((width, at) => (columns[at]?.key ? 0 : width))
    const candidates = Math.max(...others) > MIN_WIDTH ? others : result
    const widest = Math.max(...candidates)
    if (widest <= MIN_WIDTH) break
    result[candidates.lastIndexOf(widest)] = widest - 1
  }
  return result
}

function padOrCut(text: string, width: number, align: 'right' | undefined): string {
  const characters = [...text]
  const cut = characters.length > width ? `${characters.slice(0, width - 1).join('')}…` : text
  const padding = ' '.repeat(width - widthOf(cut))
  return align === 'right' ? padding + cut : cut + padding
}

/** Returns the text of a cell, in its color if the terminal has colors. */
export function cellText({ text, color }: Cell, { hasColors }: Screen): string {
  return color !== undefined && hasColors ? styleText(color, text, { validateStream: false }) : text
}

/** Returns the lines of a table with one row for each item. */
export function formatTable<T>(items: readonly T[], columns: readonly Column<T>[], screen: Screen): string[] {
  const filled = columns.map(({ title, cell, align, optional, key }) => {
    const values = [title, ...items.map(cell)].map(value =>
      typeof value === 'object' ? value : { text: `${value}` },
    )
    const cells: Cell[] = values.map(value => ({ ...value, text: printable(value.text) }))
    return { cells, align, optional, key, width: Math.max(...cells.map(({ text }) => widthOf(text))) }
  })
  const fits = totalOf(filled.map(({ width }) => width)) <= screen.columns
  const shown = filled.filter(({ optional }) => fits || !optional)
  const widths = shrink(shown, screen.columns)
  return Array.from({ length: items.length + 1 }, (_, row) =>
    shown
      .map(({ cells, align }, at) => {
        const { text, color } = cells[row] ?? { text: '' }
        return cellText({ text: padOrCut(text, widths[at] ?? 0, align), color }, screen)
      })
      .join(GAP)
      .trimEnd(),
  )
}
