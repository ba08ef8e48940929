// The maintenance of ports, its state file and the response to health checks, also for random sequences of commands.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import fc from 'fast-check'
import { pino } from 'pino'
import type { PortReport } from '../../../src/core/messages.ts'
import { healthOf } from '../../../src/supervisor/control-ports/health.ts'
import { createDesiredState } from '../../../src/supervisor/desired-state.ts'
import { createMaintenance } from '../../../src/supervisor/maintenance.ts'
import {
  drain,
  hasNoticed,
  type Moment,
  type PortMaintenance,
  remainingDelayMs,
  resume,
  serve,
  stateOf,
} from '../../../src/supervisor/port-states.ts'
import { folder } from '../../support/folder.ts'

const labels = ['http', 'https']
const startDate = new Date('2026-01-01T00:00:00Z')
const later = (ms: number): Moment => ({ date: new Date(startDate.getTime() + ms), ms })
const start = later(0)
const report = (state: PortReport['state'], connections: number, quietMs = 2000): PortReport => ({
  state,
  connections,
  active: 0,
  inFlight: 0,
  unanswered: {},
  quietMs,
})

/** Opens a maintenance stored in `file`. Also returns its log lines and the states that the workers should have. */
function open(file: string) {
  const lines: { level: number; msg: string }[] = []
  const log = pino({ level: 'info' }, { write: line => lines.push(JSON.parse(line)) })
  const desired = createDesiredState('info', { beatMs: 1000 })
  const maintenance = createMaintenance(
    {
      ports: labels.map((label, index) => ({ label, port: 1000 + 10 * index, protocol: 'http' as const })),
      stateFile: file,
      drain: { mode: '404', delayMs: 5000, idleMs: 1000, quietMs: 2000, deadlineMs: 30_000 },
    },
    log,
    desired,
  )
  const desiredStates = () => Object.values(desired.current().ports).map(({ state }) => state)
  return { maintenance, lines, desiredStates }
}

test('state: a port is drained when every worker has applied the maintenance and has been quiet for quietMs', t => {
  const serving = serve('start', start)
  const inMaintenance = drain(serving, '404', 'ada', start)
  const quietMs = 2000
  t.is(stateOf(serving, [report('draining', 0)], quietMs), 'serving')
  t.is(stateOf(inMaintenance, [report('draining', 0), report('serving', 0)], quietMs), 'draining')
  t.is(stateOf(inMaintenance, [report('draining', 0), report('closing', 1)], quietMs), 'draining')
  t.is(stateOf(inMaintenance, [report('draining', 0), report('closing', 0)], quietMs), 'drained')
  t.is(
    stateOf(inMaintenance, [report('draining', 0, 1999), report('draining', 0, 5000)], quietMs),
    'draining',
  )
  t.is(stateOf(inMaintenance, [report('draining', 0, 2000), report('draining', 0, 5000)], quietMs), 'drained')
  t.is(stateOf(inMaintenance, [], quietMs), 'draining', 'a worker that starts serves those that wait')
})

test('drain: a repeated drain changes only the mode and keeps the start time', t => {
  const once = drain(serve('start', start), '404', 'ada', later(1))
  t.is(drain(once, '404', 'bob', later(2)), once)
  t.deepEqual(drain(once, 'refuse', 'bob', later(2)), {
    mode: 'refuse',
    since: later(1).date.toISOString(),
    modeSinceMs: 2,
    by: 'bob',
  })
  t.deepEqual(resume(once, 'bob', later(3)), {
    mode: null,
    since: later(3).date.toISOString(),
    modeSinceMs: 3,
    by: 'bob',
  })
})

test('drain: a checker has noticed it at its second check', t => {
  t.deepEqual(
    [0, 1, 2].map(noticed => hasNoticed({ noticed })),
    [false, false, true],
  )
})

test('drain delay: runs from the latest change of a mode', t => {
  const serving = serve('start', start)
  const [one, other] = [drain(serving, '404', 'ada', later(1000)), drain(serving, '404', 'ada', later(3000))]
  const remaining = (ports: readonly PortMaintenance[], now: Moment) => remainingDelayMs(ports, 5000, now.ms)
  t.is(remaining([one, other], later(4000)), 4000)
  t.is(remaining([one, other], later(9000)), 0)
  const switched = drain(one, 'refuse', 'bob', later(8000))
  t.is(remaining([switched, other], later(9000)), 4000)
  const setBack = drain(other, 'refuse', 'bob', { date: new Date(0), ms: 9000 })
  t.is(remaining([one, setBack], later(10_000)), 4000, 'a clock that was set back does not change the delay')
})

test('state file: written atomically with mode 0600 before the change takes effect; the drain of a stop is not stored', t => {
  const file = join(folder(t), 'var', 'state.json')
  const first = open(file)
  t.deepEqual(first.desiredStates(), ['serving', 'serving'])
  first.maintenance.drain('https', 'refuse', 'ada')
  t.deepEqual(first.desiredStates(), ['serving', 'draining'])
  t.is(first.maintenance.startOf('http'), null)
  t.is(first.maintenance.startOf('https'), first.maintenance.get('https').since)
  t.is(statSync(file).mode & 0o777, 0o600)
  t.deepEqual(readdirSync(join(file, '..')), ['state.json'])
  t.is(first.maintenance.drainAll('SIGTERM'), 5000)
  t.is(first.maintenance.get('http').mode, '404')
  t.deepEqual(first.desiredStates(), ['draining', 'draining'])

  const second = open(file)
  t.deepEqual(second.desiredStates(), ['serving', 'draining'])
  t.is(second.maintenance.get('http').mode, null)
  const { mode, since, by } = first.maintenance.get('https')
  t.like(second.maintenance.get('https'), { mode, since, by })
  t.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { maintenance: { https: { mode, since, by } } })
  second.maintenance.resume('https', 'ada')
  t.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { maintenance: {} })
})

test('state file: if it cannot be written, nothing changes', t => {
  const file = join(folder(t), 'not-a-folder')
  writeFileSync(file, '')
  const { maintenance, desiredStates } = open(join(file, 'state.json'))
  t.throws(() => maintenance.drain('http', '404', 'ada'))
  t.is(maintenance.get('http').mode, null)
  t.deepEqual(desiredStates(), ['serving', 'serving'])
  // It serves already: nothing is to be written.
  t.notThrows(() => maintenance.resume('http', 'ada'))
})

test('state file: a damaged one is logged as an error and a missing one as info; every port serves', t => {
  const file = join(folder(t), 'state.json')
  t.deepEqual(
    open(file).lines.map(({ level }) => level),
    [30],
  )
  for (const damage of [
    '',
    '{',
    'null',
    '{"maintenance": {"http": true}}',
    '{"maintenance": {"http": {"mode": "x"}}}',
  ]) {
    writeFileSync(file, damage)
    const { maintenance, lines } = open(file)
    t.is(maintenance.get('http').mode, null)
    t.is(lines[0]?.level, 50)
    t.regex(lines[0]?.msg ?? '', /DAMAGED/)
  }
})

test('any sequence of commands: a port in maintenance is never healthy, also after a restart', t => {
  const command = fc.record({
    label: fc.constantFrom(...labels),
    do: fc.constantFrom('drain404', 'drainRefuse', 'resume', 'restart', 'stop'),
    reports: fc.array(
      fc.record({
        state: fc.constantFrom('serving' as const, 'draining' as const, 'closing' as const),
        connections: fc.nat(2),
        active: fc.nat(2),
        inFlight: fc.nat(2),
        unanswered: fc.constant({}),
        quietMs: fc.nat(2),
      }),
    ),
  })
  const path = folder(t)
  let file = 0
  fc.assert(
    fc.property(fc.array(command, { maxLength: 20 }), commands => {
      const state = join(path, `${file++}.json`)
      let { maintenance } = open(state)
      const drained = new Set<string>()
      for (const one of commands) {
        if (one.do === 'drain404') maintenance.drain(one.label, '404', 'ada')
        if (one.do === 'drainRefuse') maintenance.drain(one.label, 'refuse', 'ada')
        if (one.do === 'resume') maintenance.resume(one.label, 'ada')
        if (one.do.startsWith('drain')) drained.add(one.label)
        if (one.do === 'resume') drained.delete(one.label)
        if (one.do === 'stop') {
          maintenance.drainAll('SIGTERM')
          for (const label of labels) t.not(maintenance.get(label).mode, null)
        }
        if (one.do === 'restart' || one.do === 'stop') ({ maintenance } = open(state))
        for (const label of labels) {
          const state = stateOf(maintenance.get(label), one.reports, 0)
          const { status } = healthOf(label, state, [undefined], 10_000)
          t.is(status, drained.has(label) ? 404 : 200)
        }
      }
    }),
    { numRuns: 100 },
  )
})
