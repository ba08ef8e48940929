// The tables of ports, checkers, workers and certificates that an operator sees.
import type { PortStatus, Status } from '../../supervisor/control/status.ts'
import { hasSeen } from '../../supervisor/port-states.ts'
import { type Cell, type Column, formatTable, type Row, type Screen } from './table.ts'

const colors: Readonly<Record<string, Cell['color']>> = {
  serving: 'green',
  ready: 'green',
  connected: 'green',
  draining: 'yellow',
  drained: 'yellow',
  booting: 'yellow',
  retiring: 'yellow',
  connecting: 'yellow',
  killed: 'red',
  away: 'red',
}

export const stateCell = (state: string): Cell => ({ text: state, color: colors[state] })

const units = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const

/** Formats a time span in one or two units, such as `2 h 5 min`. */
export function formatSpan(ms: number): string {
  const largest = units.findIndex(([unitMs]) => ms >= unitMs)
  if (largest === -1) return '0 s'
  let rest = ms
  const counts = units.slice(largest, largest + 2).map(([unitMs, unit]) => {
    const count = Math.floor(rest / unitMs)
    rest -= count * unitMs
    return count === 0 ? '' : `${count} ${unit}`
  })
  return counts.join(' ').trim()
}

export const formatAge = (time: string, nowMs: number): string => formatSpan(nowMs - Date.parse(time))

/** Returns whether a checker has noticed the maintenance. A control port that refuses connections cannot know. */
function noticed({ mode, since }: PortStatus, checker: PortStatus['checkers'][number]): string {
  if (mode !== '404') return ''
  return hasSeen(checker, since) ? 'yes' : 'not yet'
}

/** The number of checkers, and how many of them have noticed the maintenance. */
function checkersOf(port: PortStatus): string {
  const { checkers, mode } = port
  const count = checkers.filter(checker => noticed(port, checker) === 'yes').length
  return mode === '404' ? `${count} of ${checkers.length}` : String(checkers.length)
}

/** A column of a table, and the cell in the row of an item. */
export type ColumnOf<T> = Column & { readonly cell: (item: T) => Row[number] }

/** Returns the lines of a table with one row for each item. */
export function tableOf<T>(items: readonly T[], columns: readonly ColumnOf<T>[], screen: Screen): string[] {
  const rows = items.map(item => columns.map(({ cell }) => cell(item)))
  return formatTable(columns, rows, screen)
}

export function portTable(ports: Status['ports'], screen: Screen, nowMs: number): string[] {
  const items = Object.entries(ports).map(([label, port]) => ({ label, ...port }))
  const columns: readonly ColumnOf<(typeof items)[number]>[] = [
    { title: 'PORT', cell: ({ label }) => label },
    { title: '', align: 'right', cell: ({ port }) => port },
    { title: 'CONTROL', align: 'right', optional: true, cell: ({ control_port }) => control_port },
    { title: 'STATE', cell: ({ state }) => stateCell(state) },
    { title: 'MODE', optional: true, cell: ({ mode }) => mode ?? '' },
    { title: 'FOR', cell: ({ since }) => formatAge(since, nowMs) },
    { title: 'SINCE', optional: true, cell: ({ since }) => since },
    { title: 'BY', cell: ({ by }) => by },
    { title: 'CONNECTIONS', align: 'right', cell: ({ connections }) => connections },
    { title: 'IN FLIGHT', align: 'right', cell: ({ in_flight }) => in_flight },
    { title: 'CHECKERS', align: 'right', cell: checkersOf },
  ]
  return tableOf(items, columns, screen)
}

/** One line for each checker. HAProxy's state is cut if it is too long; its first word is the state itself. */
export function checkerTable(ports: Status['ports'], screen: Screen, nowMs: number): string[] {
  const items = Object.entries(ports).flatMap(([label, port]) =>
    port.checkers.map(checker => ({ label, port, checker })),
  )
  const columns: readonly ColumnOf<(typeof items)[number]>[] = [
    { title: 'CHECKER', cell: ({ checker }) => checker.address },
    { title: 'PORT', cell: ({ label }) => label },
    { title: 'CHECKED', cell: ({ checker }) => `${formatAge(checker.seen, nowMs)} ago` },
    { title: 'ANSWER', cell: ({ checker }) => checker.status },
    { title: 'NOTICED', cell: ({ port, checker }) => noticed(port, checker) },
    { title: 'SERVER STATE', cell: ({ checker }) => checker.server_state ?? '' },
  ]
  return items.length === 0 ? ['no checkers'] : tableOf(items, columns, screen)
}

export function workerTable(workers: Status['workers'], screen: Screen, nowMs: number): string[] {
  const columns: readonly ColumnOf<Status['workers'][number]>[] = [
    { title: 'WORKER', align: 'right', cell: ({ pid }) => pid ?? '' },
    { title: 'STATE', cell: ({ state }) => stateCell(state) },
    { title: 'AGE', cell: ({ started }) => formatAge(started, nowMs) },
    { title: 'STARTED', optional: true, cell: ({ started }) => started },
    { title: 'MEMORY', align: 'right', cell: one => `${Math.round(one.memory_bytes / 2 ** 20)} MiB` },
    { title: 'IN FLIGHT', align: 'right', cell: ({ in_flight }) => in_flight },
    { title: 'EVENT LOOP LAG', align: 'right', cell: ({ lag_ms }) => `${Math.round(lag_ms)} ms` },
  ]
  return workers.length === 0 ? ['no workers'] : tableOf(workers, columns, screen)
}
