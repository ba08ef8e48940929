// The tables of ports, checkers and workers that an operator sees.
import type { PortStatus, Status } from '../../supervisor/control-ports/status.ts'
import { hasNoticed } from '../../supervisor/port-states.ts'
import { type Cell, type Column, formatTable, type Screen } from './table.ts'

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

/** Formats a time span in one or two units, such as `2 h 5 min`. */
export function formatSpan(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  const counts = [
    { count: Math.floor(seconds / 86_400), unit: 'd' },
    { count: Math.floor(seconds / 3600) % 24, unit: 'h' },
    { count: Math.floor(seconds / 60) % 60, unit: 'min' },
    { count: seconds % 60, unit: 's' },
  ]
  const largest = counts.findIndex(({ count }) => count > 0)
  if (largest === -1) return '0 s'
  const shown = counts.slice(largest, largest + 2).filter(({ count }) => count > 0)
  return shown.map(({ count, unit }) => `${count} ${unit}`).join(' ')
}

/** Returns how long ago a time was, in one or two units. @param time ISO 8601 */
export const formatAge = (time: string): string => formatSpan(Date.now() - Date.parse(time))

/** Returns whether a checker has noticed the maintenance. A control port that refuses connections cannot know. */
function noticed({ mode }: PortStatus, checker: PortStatus['checkers'][number]): string {
  if (mode !== '404') return ''
  return hasNoticed(checker) ? 'yes' : 'not yet'
}

/** The number of checkers, and how many of them have noticed the maintenance. */
function checkersOf(port: PortStatus): string {
  const { checkers, mode } = port
  const count = checkers.filter(checker => noticed(port, checker) === 'yes').length
  return mode === '404' ? `${count} of ${checkers.length}` : String(checkers.length)
}

function portTable(ports: Status['ports'], screen: Screen): string[] {
  const items = Object.entries(ports).map(([label, port]) => ({ label, ...port }))
  const columns: readonly Column<(typeof items)[number]>[] = [
    { title: 'PORT', cell: ({ label }) => label },
    { title: '', align: 'right', cell: ({ port }) => port },
    { title: 'STATE', cell: ({ state }) => stateCell(state) },
    { title: 'FOR', cell: ({ since }) => formatAge(since) },
    { title: 'CONNECTIONS', align: 'right', cell: ({ connections }) => connections },
    { title: 'IN FLIGHT', align: 'right', cell: ({ in_flight }) => in_flight },
    { title: 'CHECKERS', align: 'right', cell: checkersOf },
    { title: 'MODE', cell: ({ mode }) => mode ?? '' },
    { title: 'BY', cell: ({ by }) => by },
  ]
  return formatTable(items, columns, screen)
}

/**
 * Returns the state that HAProxy reports without the address and the port of this service in it: in 80 columns, they would hide the
 * names that tell several HAProxy processes apart.
 */
const reported = ({ server_state }: PortStatus['checkers'][number]): string =>
  server_state?.replace(/ address=[^;]*; port=[^;]*;/, '') ?? ''

/** One line for each checker. HAProxy's state is cut if it is too long; its first word is the state itself. */
function checkerTable(ports: Status['ports'], screen: Screen): string[] {
  const items = Object.entries(ports).flatMap(([label, port]) =>
    port.checkers.map(checker => ({ label, port, checker })),
  )
  const columns: readonly Column<(typeof items)[number]>[] = [
    { title: 'CHECKER', cell: ({ checker }) => checker.address },
    { title: 'PORT', cell: ({ label }) => label },
    { title: 'CHECKED', cell: ({ checker }) => `${formatAge(checker.seen)} ago` },
    { title: 'ANSWER', cell: ({ checker }) => checker.status },
    { title: 'NOTICED', cell: ({ port, checker }) => noticed(port, checker) },
    { title: 'SERVER STATE', cell: ({ checker }) => reported(checker) },
  ]
  return items.length === 0 ? ['no checkers'] : formatTable(items, columns, screen)
}

/** The table of the ports, and that of their checkers. */
export const portTables = (ports: Status['ports'], screen: Screen): string[] => [
  ...portTable(ports, screen),
  '',
  ...checkerTable(ports, screen),
]

export function workerTable(workers: Status['workers'], screen: Screen): string[] {
  const columns: readonly Column<Status['workers'][number]>[] = [
    { title: 'WORKER', align: 'right', cell: ({ pid }) => pid ?? '' },
    { title: 'STATE', cell: ({ state }) => stateCell(state) },
    { title: 'AGE', cell: ({ started }) => formatAge(started) },
    { title: 'MEMORY', align: 'right', cell: one => `${Math.round(one.memory_bytes / 2 ** 20)} MiB` },
    { title: 'IN FLIGHT', align: 'right', cell: ({ in_flight }) => in_flight },
    { title: 'EVENT LOOP LAG', align: 'right', cell: ({ lag_ms }) => `${Math.round(lag_ms)} ms` },
  ]
  return workers.length === 0 ? ['no workers'] : formatTable(workers, columns, screen)
}
