// The maintenance of ports: any sequence of commands, stops, restarts and reports, and what a check is told of it.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import fc from 'fast-check'
import { pino } from 'pino'
import type { PortReport } from '../../../src/core/messages.ts'
import { healthOf } from '../../../src/supervisor/control/health.ts'
import { createMaintenance } from '../../../src/supervisor/maintenance.ts'
import {
  allServing,
  delayLeftMs,
  drain,
  type Intent,
  type Intents,
  resume,
  stateOf,
} from '../../../src/supervisor/port-states.ts'

const labels = ['http', 'https']
const start = new Date('2026-01-01T00:00:00Z')
const later = (ms: number) => new Date(start.getTime() + ms)
const report = (state: PortReport['state'], connections: number): PortReport => ({
  state,
  connections,
  inFlight: 0,
})

function folder(t: { teardown(fn: () => void): void }): string {
  const path = mkdtempSync(join(tmpdir(), 'users-api-ports-'))
  t.teardown(() => rmSync(path, { recursive: true }))
  return path
}

/** A maintenance kept in `file`, and the lines that it logs. */
function open(file: string) {
  const lines: { level: number; msg: string }[] = []
  const log = pino({ level: 'info' }, { write: line => lines.push(JSON.parse(line)) })
  let changes = 0
  const maintenance = createMaintenance(
    {
      ports: labels.map((label, index) => ({ label, port: 1000 + 10 * index, protocol: 'http' as const })),
      stateFile: file,
      drain: { mode: '404', delayMs: 5000, idleMs: 1000, deadlineMs: 30_000 },
    },
    log,
    () => changes++,
  )
  return { maintenance, lines, changes: () => changes }
}

test('a port is drained when every worker knows of it and no connection is left', t => {
  const serving: Intent = {
    mode: null,
    since: start.toISOString(),
    toldSince: start.toISOString(),
    by: 'start',
  }
  const away: Intent = { ...serving, mode: '404' }
  t.is(stateOf(serving, [report('draining', 0)]), 'serving')
  t.is(stateOf(away, [report('draining', 0), report('serving', 0)]), 'draining')
  t.is(stateOf(away, [report('draining', 0), report('closing', 1)]), 'draining')
  t.is(stateOf(away, [report('draining', 0), report('closing', 0)]), 'drained')
})

test('draining again changes the mode alone; the time goes on from the first', t => {
  const once = drain(allServing(labels, 'start', start), 'http', '404', 'ada', later(1))
  t.is(drain(once, 'http', '404', 'bob', later(2)), once)
  t.deepEqual(drain(once, 'http', 'refuse', 'bob', later(2)).http, {
    mode: 'refuse',
    since: later(1).toISOString(),
    toldSince: later(2).toISOString(),
    by: 'bob',
  })
  t.deepEqual(resume(once, 'http', 'bob', later(3)).http, {
    mode: null,
    since: later(3).toISOString(),
    toldSince: later(3).toISOString(),
    by: 'bob',
  })
})

test('the delay counts from what was told last: the maintenance of a port, or another mode', t => {
  const one = drain(allServing(labels, 'start', start), 'http', '404', 'ada', later(1000))
  const both = drain(one, 'https', '404', 'ada', later(3000))
  const left = (intents: Intents, now: Date) => delayLeftMs(Object.values(intents), 5000, now)
  t.is(left(both, later(4000)), 4000)
  t.is(left(both, later(9000)), 0)
  const switched = drain(both, 'http', 'refuse', 'bob', later(8000))
  t.is(left(switched, later(9000)), 4000)
  t.is(left(both, start), 5000, 'a clock that was set back does not prolong it')
})

test('maintenance is on disk before it is known, whole and private, and survives; a stop is not', t => {
  const file = join(folder(t), 'var', 'state.json')
  const first = open(file)
  first.maintenance.drain('https', 'refuse', 'ada')
  t.is(first.changes(), 1)
  t.is(statSync(file).mode & 0o777, 0o600)
  t.deepEqual(readdirSync(join(file, '..')), ['state.json'])
  t.is(first.maintenance.drainAll('SIGTERM'), 5000)
  t.is(first.maintenance.of('http').mode, '404')

  const second = open(file)
  t.is(second.maintenance.of('http').mode, null)
  const { mode, since, by } = first.maintenance.of('https')
  t.like(second.maintenance.of('https'), { mode, since, by })
  t.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { maintenance: { https: { mode, since, by } } })
  second.maintenance.resume('https', 'ada')
  t.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { maintenance: {} })
})

test('where the disk does not take it, nothing changes', t => {
  const file = join(folder(t), 'not-a-folder')
  writeFileSync(file, '')
  const { maintenance, changes } = open(join(file, 'state.json'))
  t.throws(() => maintenance.drain('http', '404', 'ada'))
  t.is(maintenance.of('http').mode, null)
  t.is(changes(), 0)
})

test('a damaged state file means serving, said loudly; a missing one is no news', t => {
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
    t.is(maintenance.of('http').mode, null)
    t.is(lines[0]?.level, 50)
    t.regex(lines[0]?.msg ?? '', /DAMAGED/)
  }
})

test('a check is told the first thing that applies', t => {
  const now = start.getTime()
  const health = (state: 'serving' | 'draining' | 'drained', downSinceMs: (number | undefined)[]) =>
    healthOf('http', { state, databaseDownSinceMs: downSinceMs }, 10_000, now)
  t.like(health('draining', []), { code: 'no_worker', status: 503 })
  t.like(health('draining', [now - 10_001, now - 20_000]), { code: 'no_database', status: 503 })
  t.like(health('draining', [now - 10_001, undefined]), { code: 'maintenance', status: 404 })
  t.like(health('drained', [now - 10_000]), { code: 'maintenance', status: 404 })
  t.like(health('serving', [now - 10_000, now - 20_000]), { code: 'serving', status: 200 })
})

test('whatever operators do, a port in maintenance is never healthy, and a restart changes nothing of it', t => {
  const command = fc.record({
    label: fc.constantFrom(...labels),
    do: fc.constantFrom('drain404', 'drainRefuse', 'resume', 'restart', 'stop'),
    reports: fc.array(
      fc.record({
        state: fc.constantFrom('serving' as const, 'draining' as const, 'closing' as const),
        connections: fc.nat(2),
        inFlight: fc.nat(2),
      }),
    ),
  })
  const path = folder(t)
  let file = 0
  fc.assert(
    fc.property(fc.array(command, { maxLength: 20 }), commands => {
      const state = join(path, `${file++}.json`)
      let { maintenance } = open(state)
      const away = new Set<string>()
      for (const one of commands) {
        if (one.do === 'drain404') maintenance.drain(one.label, '404', 'ada')
        if (one.do === 'drainRefuse') maintenance.drain(one.label, 'refuse', 'ada')
        if (one.do === 'resume') maintenance.resume(one.label, 'ada')
        if (one.do.startsWith('drain')) away.add(one.label)
        if (one.do === 'resume') away.delete(one.label)
        if (one.do === 'stop') {
          maintenance.drainAll('SIGTERM')
          for (const label of labels) t.not(maintenance.of(label).mode, null)
        }
        if (one.do === 'restart' || one.do === 'stop') ({ maintenance } = open(state))
        for (const label of labels) {
          const facts = {
            state: stateOf(maintenance.of(label), one.reports),
            databaseDownSinceMs: [undefined],
          }
          const { status } = healthOf(label, facts, 10_000, start.getTime())
          t.is(status, away.has(label) ? 404 : 200)
        }
      }
    }),
    { numRuns: 100 },
  )
})
