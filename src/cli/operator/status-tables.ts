// The tables of ports, checkers, workers and certificates that an operator sees.
import type { PortStatus, Status } from '../../supervisor/control/status.ts'
import { hasSeen } from '../../supervisor/port-states.ts'
import { type Cell, formatTable, type Row, type Screen } from './table.ts'

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

export function portTable(ports: Status['ports'], screen: Screen, nowMs: number): string[] {
  const rows = Object.entries(ports).map(
    ([label, port]): Row => [
      label,
      port.port,
      port.control_port,
      stateCell(port.state),
      port.mode ?? '',
      formatAge(port.since, nowMs),
      port.since,
      port.by,
      port.connections,
      port.in_flight,
      checkersOf(port),
    ],
  )
  const columns = [
    { title: 'PORT' },
    { title: '', align: 'right' },
    { title: 'CONTROL', align: 'right', optional: true },
    { title: 'STATE' },
    { title: 'MODE', optional: true },
    { title: 'FOR' },
    { title: 'SINCE', optional: true },
    { title: 'BY' },
    { title: 'CONNECTIONS', align: 'right' },
    { title: 'IN FLIGHT', align: 'right' },
    { title: 'CHECKERS', align: 'right' },
  ] as const
  return formatTable(columns, rows, screen)
}

/** One line for each checker. HAProxy's state is cut if it is too long; its first word is the state itself. */
export function checkerTable(ports: Status['ports'], screen: Screen, nowMs: number): string[] {
  const rows = Object.entries(ports).flatMap(([label, port]) =>
    port.checkers.map(
      (checker): Row => [
        checker.address,
        label,
        `${formatAge(checker.seen, nowMs)} ago`,
        checker.status,
        noticed(port, checker),
        checker.server_state ?? '',
      ],
    ),
  )
  const titles = ['CHECKER', 'PORT', 'CHECKED', 'ANSWER', 'NOTICED', 'SERVER STATE']
  const columns = titles.map(title => ({ title }))
  return rows.length === 0 ? ['no checkers'] : formatTable(columns, rows, screen)
}

export function workerTable(workers: Status['workers'], screen: Screen, nowMs: number): string[] {
  const rows = workers.map(
    (worker): Row => [
      worker.pid ?? '',
      stateCell(worker.state),
      formatAge(worker.started, nowMs),
      worker.started,
      `${Math.round(worker.memory_bytes / 2 ** 20)} MiB`,
      worker.in_flight,
      `${Math.round(worker.lag_ms)} ms`,
    ],
  )
  const columns = [
    { title: 'WORKER', align: 'right' },
    { title: 'STATE' },
    { title: 'AGE' },
    { title: 'STARTED', optional: true },
    { title: 'MEMORY', align: 'right' },
    { title: 'IN FLIGHT', align: 'right' },
    { title: 'EVENT LOOP LAG', align: 'right' },
  ] as const
  return rows.length === 0 ? ['no workers'] : formatTable(columns, rows, screen)
}
