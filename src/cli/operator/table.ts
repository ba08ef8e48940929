// Formats tables for a terminal. A line that is longer than the terminal is cut, so the column that can be long is the last one. Each
// character counts as one column.
import { styleText } from 'node:util'
import { printable } from '../../core/quoted.ts'

/** A column of a table with one row for each `T`. */
export interface Column<T> {
  readonly title: string
  readonly cell: (item: T) => string | number | Cell
  /** Numbers are aligned to the right. */
  readonly align?: 'right'
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

const widthOf = (text: string): number => [...text].length

/** Returns the text of a cell, in its color if the terminal has colors. */
export function cellText({ text, color }: Cell, { hasColors }: Screen): string {
  return color !== undefined && hasColors ? styleText(color, text, { validateStream: false }) : text
}

/** Returns the cells of a column, the title first, all with the same width. */
function fill<T>({ title, cell, align }: Column<T>, items: readonly T[]): Cell[] {
  const cells = [title, ...items.map(cell)].map(value =>
    typeof value === 'object' ? value : { text: `${value}` },
  )
  const texts = cells.map(({ text }) => printable(text))
  const width = Math.max(...texts.map(widthOf))
  return texts.map((text, at) => {
    const padding = ' '.repeat(width - widthOf(text))
    return { text: (align === 'right' ? padding + text : text + padding) + GAP, color: cells[at]?.color }
  })
}

/** Returns the lines of a table with one row for each item. */
export function formatTable<T>(items: readonly T[], columns: readonly Column<T>[], screen: Screen): string[] {
  const filled = columns.map(column => fill(column, items))
  return Array.from({ length: items.length + 1 }, (_, row) => {
    let left = screen.columns
    const shown = filled.map(cells => {
      const { text, color } = cells[row] ?? { text: '' }
      const part = [...text].slice(0, left)
      left -= part.length
      return cellText({ text: part.join(''), color }, screen)
    })
    return shown.join('').trimEnd()
  })
}
