// The reply to an operator's command as text for a terminal.
import type { CommandName } from '../../supervisor/command-names.ts'
import { type ReplyTo, replySchemas } from '../../supervisor/command-replies.ts'
import type { PortStatus, Status } from '../../supervisor/control-ports/status.ts'
import { hasNoticed } from '../../supervisor/port-states.ts'
import type { Reply } from './client.ts'
import { formatAge, portTables, stateCell, workerTable } from './status-tables.ts'
import { type Column, cellText, formatTable, type Screen } from './table.ts'

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** Returns what keeps `wait` from ending, such as `2 connections (1 request in flight)`. */
export function describePending(port: PortStatus): string {
  const { connections, in_flight, state, mode, checkers } = port
  const pending = checkers.filter(checker => !hasNoticed(checker)).map(({ address }) => address)
  const reasons: string[] = []
  if (connections > 0)
    reasons.push(`${plural(connections, 'connection')} (${plural(in_flight, 'request')} in flight)`)
  if (pending.length > 0) reasons.push(`checkers that have not noticed: ${pending.join(', ')}`)
  if (reasons.length > 0) return reasons.join('; ')
  if (state === 'draining') return 'drain.quietMs to pass without a connection'
  return mode === 'refuse' ? 'the end of the drain delay for TCP checks' : 'the workers to confirm the drain'
}

/** Returns how the first new worker of a reload does, beside the old ones. */
export function describeWatch({ pid, left_ms, fresh, old }: NonNullable<Status['watch']>): string {
  const end = left_ms > 0 ? `for ${Math.ceil(left_ms / 1000)} s more` : 'until it is clear how it does'
  return `worker ${pid} serves beside the old ones ${end}: it answered 5xx, or nothing, to ${fresh.failed} of ${fresh.responses} requests, the old ones to ${old.failed} of ${old.responses}`
}

function statusText(reply: Reply, screen: Screen): string[] {
  const { node, version, started, ports, workers, redis } = replySchemas.status.parse(reply)
  const facts = [
    `users-api ${version} on ${node}`,
    `up ${formatAge(started)}`,
    `Redis ${cellText(stateCell(redis), screen)}`,
  ]
  const expired = Object.entries(ports).flatMap(([label, { valid_to }]) =>
    valid_to !== null && Date.parse(valid_to) <= Date.now()
      ? [`the certificate of ${label} EXPIRED on ${valid_to}`]
      : [],
  )
  return [facts.join(', '), ...expired, '', ...portTables(ports, screen), '', ...workerTable(workers, screen)]
}

const portText = (label: string, port: PortStatus, sentence: string, screen: Screen): string[] => [
  `${label} ${sentence}`,
  '',
  ...portTables({ [label]: port }, screen),
]

function waitSentence(port: ReplyTo<'wait'>): string {
  if (port.ended === 'deadline') {
    const { requests_per_second, addresses } = port
    const arriving =
      requests_per_second === 0
        ? ''
        : `; ${requests_per_second} requests a second still arrive, from ${addresses.join(', ')}`
    return `has reached the drain deadline and still waits for ${describePending(port)}${arriving}`
  }
  const noticed = port.checkers.length === 0 ? 'no checker is known' : 'every checker has noticed'
  const checks = port.mode === 'refuse' ? 'the drain delay for TCP checks is over' : noticed
  return `is drained: it has no connection left, and ${checks}`
}

function certificatesText({ command: _, argument: __, ...reply }: Reply, screen: Screen): string[] {
  const byLabel = Object.entries(replySchemas['reload-certificates'].parse(reply))
  const certificates = byLabel.map(([label, one]) => ({ label, ...one }))
  if (certificates.length === 0) return ['no port has a certificate']
  const columns: readonly Column<(typeof certificates)[number]>[] = [
    { title: 'PORT', cell: ({ label }) => label },
    { title: 'VALID TO', cell: one => one.valid_to },
    { title: 'SUBJECT', cell: ({ subject }) => subject },
    { title: 'FINGERPRINT', cell: ({ fingerprint }) => fingerprint },
  ]
  return formatTable(certificates, columns, screen)
}

/** Returns the lines for a reply without an error. @throws Error if it lacks fields, as another version's may */
export function describeReply(
  command: CommandName,
  argument: string | undefined,
  reply: Reply,
  screen: Screen,
): string[] {
  const [label = ''] = (argument ?? '').split(':')
  switch (command) {
    case 'status':
      return statusText(reply, screen)
    case 'drain':
    case 'resume': {
      const { changed, ...port } = replySchemas[command].parse(reply)
      const sentence = changed ? `is ${port.state} now` : `was ${port.state} already`
      return portText(label, port, sentence, screen)
    }
    case 'wait': {
      const port = replySchemas.wait.parse(reply)
      return portText(label, port, waitSentence(port), screen)
    }
    case 'reload': {
      const { workers } = replySchemas.reload.parse(reply)
      return ['every worker has the current code and settings', '', ...workerTable(workers, screen)]
    }
    case 'reload-certificates':
      return certificatesText(reply, screen)
    case 'heap-snapshot':
    case 'cpu-profile':
      return [replySchemas[command].parse(reply).path]
    case 'log-level':
      return [`the log level is ${replySchemas['log-level'].parse(reply).level} until the next start`]
  }
}
