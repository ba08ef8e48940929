// Tables for a terminal, and time spans.
import test from 'ava'
import fc from 'fast-check'
import { describePending, describeReply, describeWatch } from '../../../src/cli/operator/reply-text.ts'
import { formatSpan, portTables, workerTable } from '../../../src/cli/operator/status-tables.ts'
import { formatTable } from '../../../src/cli/operator/table.ts'

test('reload: the watch is shown with its time and figures', t => {
  const watch = { pid: 12, fresh: { responses: 40, failed: 2 }, old: { responses: 80, failed: 0 } }
  for (const [left_ms, time] of [
    [6100, 'for 7 s more'],
    [0, 'until it is clear how it does'],
  ] as const)
    t.is(
      describeWatch({ ...watch, left_ms }),
      `worker 12 serves beside the old ones ${time}: it answered 5xx, or nothing, to 2 of 40 requests, the old ones to 0 of 80`,
    )
})

const since = new Date().toISOString()
const screen = { columns: 120, hasColors: false }
/** A port that drains, with no connection. */
const draining = {
  port: 80,
  control_port: 81,
  state: 'draining' as const,
  mode: '404' as const,
  since,
  by: 'ada',
  connections: 0,
  in_flight: 0,
  valid_to: null,
  checkers: [1, 2].map(noticed => ({
    address: `10.0.0.${noticed}`,
    seen: since,
    status: 404,
    server_state: null,
    noticed,
  })),
}

test('wait: says what it waits for', t => {
  const quiet = { ...draining, checkers: [] }
  for (const [port, text] of [
    [
      { ...draining, connections: 1, in_flight: 1 },
      '1 connection (1 request in flight); checkers that have not noticed: 10.0.0.1',
    ],
    [{ ...quiet, connections: 2 }, '2 connections (0 requests in flight)'],
    [quiet, 'drain.quietMs to pass without a connection'],
    [{ ...quiet, state: 'drained' }, 'the workers to confirm the drain'],
    [{ ...quiet, state: 'drained', mode: 'refuse' }, 'the end of the drain delay for TCP checks'],
  ] as const)
    t.is(describePending(port), text)
  const deadline = { ...quiet, connections: 1, ended: 'deadline', waiting_for: [], addresses: ['10.0.0.9'] }
  const sentence = (requests_per_second: number) =>
    describeReply('wait', 'http', { ...deadline, requests_per_second }, screen)[0]
  const start = 'http has reached the drain deadline and still waits for 1 connection (0 requests in flight)'
  t.is(sentence(0), start)
  t.is(sentence(2.5), `${start}; 2.5 requests a second still arrive, from 10.0.0.9`)
})

test('tables: checkers of a port that refuses connections have not noticed anything, and empty tables say so', t => {
  const textOf = (port: typeof draining | (Omit<typeof draining, 'mode'> & { mode: 'refuse' })) =>
    portTables({ http: port }, screen).join('\n')
  t.regex(textOf(draining), /1 of 2.*10\.0\.0\.1 .* 404 +not yet\n10\.0\.0\.2 .* 404 +yes$/s)
  t.regex(textOf({ ...draining, mode: 'refuse' }), / 2 +refuse.* 404\n[^\n]* 404$/s)
  t.is(portTables({ http: { ...draining, checkers: [] } }, screen).at(-1), 'no checkers')
  t.deepEqual(workerTable([], screen), ['no workers'])
  t.deepEqual(describeReply('reload-certificates', undefined, {}, screen), ['no port has a certificate'])
})

test('heap-snapshot and cpu-profile: only the path of the file is shown', t => {
  for (const command of ['heap-snapshot', 'cpu-profile'] as const)
    t.deepEqual(describeReply(command, '12', { pid: 12, path: '/var/a' }, screen), ['/var/a'])
})

test('table: no line is wider than the terminal, and no text controls the terminal', t => {
  const cell = fc.string({ unit: 'binary', maxLength: 200 })
  const table = fc.integer({ min: 1, max: 10 }).chain(count =>
    fc.record({
      columns: fc.array(fc.record({ title: fc.string({ maxLength: 20 }) }), {
        minLength: count,
        maxLength: count,
      }),
      rows: fc.array(fc.array(cell, { minLength: count, maxLength: count })),
      width: fc.integer({ min: 1, max: 250 }),
    }),
  )
  fc.assert(
    fc.property(table, ({ columns, rows, width }) => {
      const filled = columns.map(({ title }, at) => ({ title, cell: (row: string[]) => row[at] ?? '' }))
      const lines = formatTable(rows, filled, { columns: width, hasColors: false })
      return (
        lines.length === rows.length + 1 &&
        lines.every(line => [...line].length <= width && !/\p{Cc}/u.test(line))
      )
    }),
  )
  t.pass()
})

test('table: lines are cut at the end, also within a colored cell', t => {
  const columns = [
    { title: 'N', align: 'right', cell: () => 10 },
    { title: 'TEXT', cell: () => ({ text: '👍 a long text', color: 'green' as const }) },
    { title: 'MORE', cell: () => 'more' },
  ] as const
  const format = (width: number, hasColors = false) =>
    formatTable([1], columns, { columns: width, hasColors })
  t.deepEqual(format(30), [' N  TEXT           MORE', '10  👍 a long text  more'])
  t.deepEqual(format(8), [' N  TEXT', '10  👍 a'])
  t.is(format(8, true)[1], '10  \u001b[32m👍 a \u001b[39m')
})

test('status: 80 columns show which server of HAProxy a check is for', t => {
  const checker = { address: '10.0.0.11', seen: new Date().toISOString(), status: 200, noticed: 0 }
  const stateOf = (name: string) =>
    `UP; address=10.0.0.1; port=80; name=http/${name}; node=lb-1; weight=1/2; scur=0/0; qcur=0`
  const http = {
    port: 80,
    control_port: 81,
    state: 'serving',
    mode: null,
    since: checker.seen,
    by: 'start',
    connections: 0,
    in_flight: 0,
    valid_to: null,
    checkers: ['A', 'B'].map(name => ({ ...checker, server_state: stateOf(name) })),
  } as const
  const lines = portTables({ http }, { columns: 80, hasColors: false })
  t.regex(lines.at(-2) ?? '', /UP; name=http\/A; node=lb-1/)
  t.regex(lines.at(-1) ?? '', /UP; name=http\/B; node=lb-1/)
})

test('wait: says that every checker has noticed only if there is one', t => {
  const since = new Date().toISOString()
  const port = {
    port: 80,
    control_port: 81,
    state: 'drained',
    mode: '404',
    since,
    by: 'ada',
    connections: 0,
    in_flight: 0,
    valid_to: null,
  }
  const checker = { address: '10.0.0.11', seen: since, status: 404, server_state: null, noticed: 2 }
  const sentence = (checkers: object[]) =>
    describeReply(
      'wait',
      'http',
      { ended: 'drained', ...port, checkers },
      { columns: 80, hasColors: false },
    )[0]
  t.is(sentence([checker]), 'http is drained: it has no connection left, and every checker has noticed')
  t.is(sentence([]), 'http is drained: it has no connection left, and no checker is known')
})

test('status: says which certificate has expired', t => {
  const since = new Date().toISOString()
  const port = {
    port: 443,
    control_port: 444,
    state: 'serving',
    mode: null,
    since,
    by: 'start',
    checkers: [],
  }
  const idle = { ...port, connections: 0, in_flight: 0 }
  const old = { ...idle, valid_to: '2026-01-01T00:00:00.000Z' }
  const ports = { old, valid: { ...idle, valid_to: '9999-01-01T00:00:00.000Z' } }
  const reply = { node: 'a', version: '1', started: since, ports, workers: [], redis: 'none' }
  const lines = describeReply('status', undefined, reply, { columns: 80, hasColors: false })
  t.deepEqual(
    lines.filter(line => line.includes('EXPIRED')),
    ['the certificate of old EXPIRED on 2026-01-01T00:00:00.000Z'],
  )
})

test('time spans: the two largest units', t => {
  const cases: [number, string][] = [
    [-5, '0 s'],
    [999, '0 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [3_600_000 + 5000, '1 h'],
    [7_510_000, '2 h 5 min'],
    [90_000_000, '1 d 1 h'],
    [864_000_000 + 3_599_999, '10 d'],
  ]
  for (const [ms, text] of cases) t.is(formatSpan(ms), text)
})
