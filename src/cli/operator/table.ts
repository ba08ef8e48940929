// Formats tables for a terminal. A table is never wider than the terminal.
import { styleText } from 'node:util'

type Color = 'green' | 'yellow' | 'red'

export interface Column {
  readonly title: string
  /** Numbers are aligned to the right. */
  readonly align?: 'right'
  /** Shown only if the terminal is wide enough for every column. */
  readonly optional?: true
}

export interface Cell {
  readonly text: string
  readonly color?: Color | undefined
}

export type Row = readonly (string | number | Cell)[]

export interface Screen {
  readonly columns: number
  readonly hasColors: boolean
}

const GAP = '  '
const MIN_WIDTH = 4

/** Replaces control characters: some texts come from other machines, and could control the terminal. */
const printable = (text: string): string => text.replace(/\p{Cc}/gu, '?')

function cellOf(value: Row[number]): Cell {
  return typeof value === 'object'
    ? { ...value, text: printable(value.text) }
    : { text: printable(String(value)) }
}

const widthOf = (text: string): number => [...text].length
const totalOf = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1))

/** Reduces the widest columns until the row fits, but none below MIN_WIDTH. */
function shrink(widths: readonly number[], available: number): number[] {
  const result = [...widths]
  for (let excess = totalOf(result) - available; excess > 0; excess--) {
    const widest = Math.max(...result)
    if (widest <= MIN_WIDTH) break
    result[result.lastIndexOf(widest)] = widest - 1
  }
  return result
}

function padOrCut(text: string, width: number, align: Column['align']): string {
  const characters = [...text]
  const cut = characters.length > width ? `${characters.slice(0, width - 1).join('')}…` : text
  const padding = ' '.repeat(width - widthOf(cut))
  return align === 'right' ? padding + cut : cut + padding
}

/** Returns the text of a cell, in its color if the terminal has colors. */
export function cellText({ text, color }: Cell, { hasColors }: Pick<Screen, 'hasColors'>): string {
  const safe = printable(text)
  return color !== undefined && hasColors ? styleText(color, safe, { validateStream: false }) : safe
}

export function formatTable(columns: readonly Column[], rows: readonly Row[], screen: Screen): string[] {
  const available = screen.columns
  const header = columns.map(({ title }) => ({ text: title }))
  const all: Cell[][] = [header, ...rows.map(row => row.map(cellOf))]
  const fullWidths = columns.map((_, at) => Math.max(...all.map(row => widthOf(row[at]?.text ?? ''))))
  const fits = totalOf(fullWidths) <= available
  const shown = columns.map((column, at) => ({ column, at })).filter(({ column }) => fits || !column.optional)
  const widths = shrink(
    shown.map(({ at }) => fullWidths[at] ?? 0),
    available,
  )
  return all.map(row =>
    shown
      .map(({ column, at }, index) => {
        const cell: Cell = row[at] ?? { text: '' }
        return cellText({ ...cell, text: padOrCut(cell.text, widths[index] ?? 0, column.align) }, screen)
      })
      .join(GAP)
      .trimEnd(),
  )
}
