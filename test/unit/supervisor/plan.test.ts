// The fleet's state and plan in a simulation in which processes boot, hang, exit and follow commands, also at random.
import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import type { Heartbeat } from '../../../src/core/messages.ts'
import { type FleetEvent, reduce } from '../../../src/supervisor/fleet/events.ts'
import { emptyFleet, type FleetState, watchOf } from '../../../src/supervisor/fleet/fleet-state.ts'
import { type Action, type FleetSettings, plan } from '../../../src/supervisor/fleet/plan.ts'
import { fleetSettings } from '../../support/fleet.ts'
import { emptyHeartbeat } from '../../support/heartbeat.ts'

/** The fleet with a simulated clock: records each event and performs the planned actions, as loop.ts and fleet.ts do. */
function createSimulation(simulatedSettings: FleetSettings = fleetSettings, forksFail = false) {
  let fleet: FleetState = emptyFleet
  let nowMs = 1000
  let nextId = 1
  const performed: Action[] = []

  function record(event: FleetEvent): void {
    fleet = reduce(fleet, event, simulatedSettings, nowMs)
  }

  function runPlan(): void {
    for (let iteration = 0; iteration < 20; iteration++) {
      const actions = plan(fleet, simulatedSettings, nowMs)
      if (actions.length === 0) return
      for (const action of actions) {
        performed.push(action)
        if (action.type === 'exit') return
        if (action.type === 'fork') record({ type: 'forked', id: nextId, pid: nextId, startedMs: 0 })
        if (action.type === 'fork' && forksFail)
          record({ type: 'exited', id: nextId, cause: { reason: 'spawn ENOMEM' } })
        if (action.type === 'fork') nextId++
        if (action.type === 'retire') record({ type: 'retired', id: action.id })
        if (action.type === 'kill') record({ type: 'killed', id: action.id, reason: action.reason })
      }
    }
    throw new Error('the plan still returns actions after 20 iterations')
  }

  const simulation = {
    performed,
    fleet: () => fleet,
    nowMs: () => nowMs,
    ended: () => performed.at(-1)?.type === 'exit',
    actions: (type: Action['type']) => performed.filter(action => action.type === type),
    ready: () =>
      fleet.workers.filter(({ state, killed }) => state === 'ready' && !killed).map(({ id }) => id),
    dispatch(event: FleetEvent): void {
      record(event)
      runPlan()
    },
    message(id: number, more: Partial<Heartbeat> = {}): void {
      simulation.dispatch({ type: 'message', id, message: { ...emptyHeartbeat, ...more } })
    },
    exit(id: number, reason = 'worker exited with code 1'): void {
      simulation.dispatch({ type: 'exited', id, cause: { reason } })
    },
    /** Something else than the supervisor kills the worker. */
    killFromOutside(id: number): void {
      const cause = { reason: 'worker terminated by SIGKILL', killedExternally: true }
      simulation.dispatch({ type: 'exited', id, cause })
    },
    /** The worker exits for a cause that a retry cannot fix. */
    exitForGood(id: number): void {
      const cause = { reason: 'run npm run migrate', exitCode: 78 }
      simulation.dispatch({ type: 'exited', id, cause })
    },
    listen(id: number): void {
      simulation.dispatch({ type: 'message', id, message: { type: 'listening' } })
    },
    reload: (watchMs = 0) => simulation.dispatch({ type: 'reload', watchMs }),
    stop: (delayMs: number) => simulation.dispatch({ type: 'stop', delayMs }),
    skipWait: () => simulation.dispatch({ type: 'skipWait' }),
    /** Advances the clock; only the workers in `responsive` send their messages in time. */
    pass(ms: number, responsive: () => readonly number[] = () => []): void {
      const untilMs = nowMs + ms
      while (nowMs < untilMs) {
        nowMs = Math.min(untilMs, nowMs + 1000)
        for (const id of responsive()) record({ type: 'message', id, message: emptyHeartbeat })
        runPlan()
      }
    },
    /** Advances the clock; all workers send their messages in time. */
    passInHealth: (ms: number) => simulation.pass(ms, simulation.workerIds),
    workerIds: () => fleet.workers.map(({ id }) => id),
    newest: () => simulation.workerIds().at(-1) ?? 0,
    lastAction: () => performed.at(-1),
  }
  runPlan()
  return simulation
}

type Simulation = ReturnType<typeof createSimulation>

/** A simulation in which all workers listen. */
function createRunningSimulation(simulatedSettings: FleetSettings = fleetSettings) {
  const simulation = createSimulation(simulatedSettings)
  for (const id of simulation.workerIds()) simulation.listen(id)
  return simulation
}

test('start: forks the configured number of workers', t => {
  t.deepEqual(
    createSimulation()
      .fleet()
      .workers.map(({ state }) => state),
    ['booting', 'booting', 'booting'],
  )
})

test('backoff: a ready worker that exits is replaced at once, repeated failures wait up to 15 s', t => {
  const simulation = createRunningSimulation()
  const gaps: number[] = []
  for (let crash = 0; crash < 11; crash++) {
    const forks = simulation.actions('fork').length
    const exitedMs = simulation.nowMs()
    simulation.exit(simulation.newest())
    while (simulation.actions('fork').length === forks) simulation.passInHealth(1)
    gaps.push(simulation.nowMs() - exitedMs)
    const replacement = simulation.newest()
    simulation.listen(replacement)
    simulation.passInHealth(1000)
  }
  t.deepEqual(gaps, [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000])

  const forks = simulation.actions('fork').length
  simulation.exit(simulation.newest())
  t.is(simulation.actions('fork').length, forks)
  simulation.exit(1)
  t.is(simulation.actions('fork').length, forks + 2, 'a worker that was ready for 30 s resets the backoff')
})

test('external SIGKILL: the worker is replaced at once, without backoff', t => {
  const simulation = createRunningSimulation()
  for (let kills = 0; kills < 60; kills++) {
    simulation.killFromOutside(simulation.ready()[0] ?? 0)
    t.is(simulation.fleet().workers.length, 3)
    simulation.passInHealth(500)
    simulation.listen(simulation.newest())
    simulation.passInHealth(500)
  }
  const single = createRunningSimulation({ ...fleetSettings, workers: 1 })
  for (let kills = 0; kills < 3; kills++) {
    single.killFromOutside(1 + kills)
    t.deepEqual(single.workerIds(), [2 + kills])
    single.listen(2 + kills)
  }
})

test('external SIGKILL: while booting it counts as a failure, unless another worker is ready', t => {
  const simulation = createSimulation()
  for (let round = 0; round < 5; round++) {
    simulation.passInHealth(500)
    for (const id of simulation.workerIds()) simulation.killFromOutside(id)
    simulation.passInHealth(14_500)
  }
  t.like(simulation.lastAction(), { type: 'exit', exitCode: 70 })

  const running = createRunningSimulation()
  running.exit(1)
  for (let kills = 0; kills < 10; kills++) {
    running.passInHealth(500)
    running.killFromOutside(running.newest())
    t.is(running.workerIds().length, 3)
  }
})

test('boot failures: the supervisor exits with the reason when no worker boots', t => {
  const simulation = createSimulation()
  for (let round = 0; round < 10 && !simulation.ended(); round++) {
    simulation.passInHealth(500)
    for (const id of simulation.workerIds()) simulation.exit(id, 'the code throws')
    simulation.passInHealth(15_000 - 500)
  }
  t.deepEqual(simulation.lastAction(), {
    type: 'exit',
    exitCode: 70,
    reason: 'no worker could start: the code throws',
  })
  t.is(
    simulation.actions('fork').length,
    5 * fleetSettings.workers,
    'workers that were forked together count once',
  )
})

test('boot failures: those before a worker that becomes ready do not count', t => {
  const simulation = createSimulation({ ...fleetSettings, workers: 1 })
  for (let id = 1; id <= 2 * fleetSettings.bootFailures; id++) {
    if (id % fleetSettings.bootFailures === 0) simulation.listen(id)
    simulation.exit(id)
    simulation.pass(15_000)
  }
  t.false(simulation.ended())
})

test('boot failures: the exit of a worker that was ready is none', t => {
  const simulation = createRunningSimulation()
  for (const id of [1, 2, 3]) simulation.exit(id)
  t.is(simulation.fleet().bootFailures, 0)
})

test('boot failures: a worker that exits by itself has failed, also while the database is unreachable', t => {
  const simulation = createSimulation({ ...fleetSettings, workers: 1 })
  for (let failure = 0; failure < fleetSettings.bootFailures; failure++) {
    t.false(simulation.ended())
    for (const id of simulation.workerIds()) {
      simulation.message(id, { databaseDownMs: 1 })
      simulation.exit(id)
    }
    simulation.pass(15_000)
  }
  t.true(simulation.ended())
})

test('boot failures: a worker that is killed at its boot timeout has failed', t => {
  const simulation = createSimulation({ ...fleetSettings, workers: 1 })
  for (let failure = 0; failure < fleetSettings.bootFailures; failure++) {
    t.false(simulation.ended())
    while (simulation.actions('kill').length === failure) simulation.passInHealth(1000)
    simulation.exit(simulation.workerIds()[0] ?? 0)
  }
  t.true(simulation.ended())
})

test('boot failures: without memory for a process, the supervisor waits longer after each attempt', t => {
  const simulation = createSimulation(fleetSettings, true)
  t.is(simulation.actions('fork').length, 1)
  simulation.pass(100)
  t.is(simulation.actions('fork').length, 2)
  t.false(simulation.ended())
  simulation.pass(15_000)
  t.is(simulation.actions('fork').length, fleetSettings.bootFailures)
  t.like(simulation.lastAction(), { type: 'exit', reason: 'no worker could start: spawn ENOMEM' })
  t.is(simulation.fleet().lostWorkers, fleetSettings.bootFailures)
})

test('boot failures: a cause that a retry cannot fix ends the supervisor at once, unless a worker is ready', t => {
  const simulation = createSimulation()
  simulation.exitForGood(1)
  t.deepEqual(simulation.lastAction(), {
    type: 'exit',
    exitCode: 78,
    reason: 'no worker could start: run npm run migrate',
  })

  const serving = createRunningSimulation()
  serving.exit(1)
  serving.exitForGood(4)
  t.false(serving.ended())
  t.deepEqual(serving.ready(), [2, 3])
})

test('exit cause: the fatal error that a worker has reported goes before the reason for which it is killed', t => {
  const simulation = createSimulation()
  const [fatal, silence] = [
    { reason: 'run npm run migrate', exitCode: 78 },
    'worker sent no message for 10000 ms',
  ]
  for (const id of [1, 2]) simulation.message(id)
  simulation.dispatch({ type: 'message', id: 1, message: { type: 'fatal', ...fatal } })
  simulation.pass(10_000)
  simulation.dispatch({ type: 'message', id: 2, message: { type: 'fatal', ...fatal } })
  t.deepEqual(simulation.actions('kill').slice(0, 2), [
    { type: 'kill', id: 1, reason: silence },
    { type: 'kill', id: 2, reason: silence },
  ])
  const causes = simulation.fleet().workers.map(({ exitCause }) => exitCause)
  t.deepEqual(causes.slice(0, 2), [fatal, fatal])
})

test('boot timeout: a worker that does not listen is killed, but not while it waits for the database', t => {
  const simulation = createSimulation()
  simulation.pass(29_000, () => [1, 2, 3])
  for (let second = 0; second < 20; second++) {
    simulation.message(1, { databaseDownMs: 1 })
    simulation.pass(1000)
  }
  const reason = 'worker did not listen within 30000 ms'
  const first = [
    { type: 'kill', id: 2, reason },
    { type: 'kill', id: 3, reason },
  ]
  t.deepEqual(simulation.actions('kill'), first)
  // The database is reachable again: the full boot timeout starts again.
  simulation.pass(28_999, () => [1])
  t.deepEqual(simulation.actions('kill').slice(0, 2), first)
  t.true(simulation.workerIds().includes(1))
  simulation.pass(1, () => [1])
  t.true(simulation.actions('kill').some(action => action.type === 'kill' && action.id === 1))
})

test('heartbeat timeout: a worker without messages is killed and replaced', t => {
  const simulation = createRunningSimulation()
  simulation.pass(9999, () => [1, 2])
  t.deepEqual(simulation.actions('kill'), [])
  simulation.pass(1, () => [1, 2])
  t.deepEqual(simulation.actions('kill'), [
    { type: 'kill', id: 3, reason: 'worker sent no message for 10000 ms' },
  ])
  t.deepEqual(
    simulation.fleet().workers.map(({ id }) => id),
    [1, 2, 3, 4],
    'the replacement is forked before the exit event',
  )
})

test('reload: replaces one worker after another, starting the new one first', t => {
  const simulation = createRunningSimulation()
  simulation.reload()
  for (const [old, fresh] of [
    [1, 4],
    [2, 5],
    [3, 6],
  ] as const) {
    t.is(simulation.newest(), fresh)
    t.is(simulation.ready().length, 3)
    simulation.listen(fresh)
    t.deepEqual(simulation.lastAction(), { type: 'retire', id: old })
    t.is(simulation.fleet().workers.length, 4, 'the next replacement waits until the old worker has exited')
    t.is(simulation.fleet().reload.state, 'running')
    simulation.exit(old)
  }
  t.deepEqual(simulation.fleet().reload, { state: 'done' })
  t.deepEqual(simulation.ready(), [4, 5, 6])
  t.is(simulation.fleet().lostWorkers, 0, 'retired workers are not lost')
})

test('reload: is done when enough new workers are ready, and a stop ends it', t => {
  const simulation = createRunningSimulation({ ...fleetSettings, workers: 1 })
  simulation.reload()
  simulation.exit(1)
  t.is(simulation.fleet().reload.state, 'running')
  simulation.listen(2)
  t.is(simulation.fleet().reload.state, 'done')
  simulation.reload()
  simulation.stop(0)
  t.deepEqual(simulation.fleet().reload, { state: 'failed', reason: 'the service is stopping' })
})

test('reload: fails and keeps the old workers if the new code does not boot', t => {
  const simulation = createRunningSimulation()
  simulation.reload()
  simulation.exit(4, 'worker exited with code 1')
  t.deepEqual(simulation.fleet().reload, { state: 'failed', reason: 'worker exited with code 1' })
  simulation.passInHealth(60_000)
  t.deepEqual(simulation.workerIds(), [1, 2, 3])
})

test('reload: the failures of the old code do not delay the new code', t => {
  const simulation = createRunningSimulation()
  for (let crash = 0; crash < 4; crash++) {
    simulation.exit(3 + crash)
    simulation.passInHealth(1000)
    simulation.listen(4 + crash)
  }
  simulation.exit(7)
  t.deepEqual(simulation.workerIds(), [1, 2], 'the next worker waits for the backoff')
  simulation.reload()
  t.deepEqual(simulation.workerIds(), [1, 2, 8])
  simulation.listen(8)
  simulation.listen(9)
  simulation.exit(1)
  simulation.listen(10)
  simulation.exit(2)
  t.is(simulation.fleet().reload.state, 'done')
  simulation.exit(8)
  t.deepEqual(simulation.workerIds(), [9, 10, 11], 'the first failure of the new code has no backoff')
})

test('reload: fails if a new worker exits after its watch, and keeps the old workers that are left', t => {
  const simulation = createRunningSimulation()
  simulation.reload(10_000)
  simulation.listen(4)
  simulation.passInHealth(10_000)
  simulation.exit(1)
  simulation.killFromOutside(4)
  t.is(simulation.fleet().reload.state, 'running', 'a kill from outside says nothing about the code')
  simulation.listen(5)
  simulation.exit(5, 'worker exited with code 1')
  t.deepEqual(simulation.fleet().reload, { state: 'failed', reason: 'worker exited with code 1' })
  simulation.listen(6)
  simulation.passInHealth(60_000)
  t.deepEqual(simulation.ready(), [2, 3, 6])
})

test('reload: fails if the first new worker is killed before it listens or while it is watched', t => {
  for (const listens of [false, true]) {
    const simulation = createRunningSimulation()
    simulation.reload(10_000)
    if (listens) simulation.listen(4)
    simulation.killFromOutside(4)
    t.deepEqual(simulation.fleet().reload, { state: 'failed', reason: 'worker terminated by SIGKILL' })
    t.deepEqual(simulation.ready(), [1, 2, 3])
  }
})

test('reload: a worker of the old code that does not boot does not end it', t => {
  const simulation = createRunningSimulation()
  simulation.exit(3)
  simulation.reload()
  simulation.exit(4)
  t.is(simulation.fleet().reload.state, 'running')
})

test('reload: after a failure that a retry cannot fix, workers that exit later are still replaced', t => {
  const simulation = createRunningSimulation()
  simulation.reload()
  simulation.exitForGood(4)
  for (const id of [1, 2, 3]) simulation.killFromOutside(id)
  simulation.passInHealth(60_000)
  t.is(simulation.actions('exit').length, 0)
  t.true(simulation.workerIds().length >= 3)
})

test('reload: the boot timeout applies while the database is unreachable', t => {
  const simulation = createRunningSimulation()
  simulation.reload()
  for (let second = 0; second < 30; second++) {
    for (const id of [1, 2, 3]) simulation.message(id)
    simulation.message(4, { databaseDownMs: 1 })
    simulation.pass(1000)
  }
  const reason = 'worker did not listen within 30000 ms, and had no database'
  t.deepEqual(simulation.actions('kill'), [{ type: 'kill', id: 4, reason }])
  t.deepEqual(simulation.fleet().workers.at(-1)?.exitCause, { reason })
  simulation.exit(4, reason)
  t.is(simulation.fleet().reload.state, 'failed')
  t.is(simulation.actions('fork').length, 4, 'no further attempt')
})

test('reload with a watch: no old worker retires before the first new one has passed; then no other is watched', t => {
  const simulation = createRunningSimulation()
  simulation.reload(10_000)
  simulation.listen(4)
  t.like(simulation.fleet().reload, { watch: { id: 4, untilMs: simulation.nowMs() + 10_000 } })
  simulation.passInHealth(9999)
  t.deepEqual(simulation.ready(), [1, 2, 3, 4])
  simulation.passInHealth(1)
  t.deepEqual(simulation.lastAction(), { type: 'retire', id: 1 })
  simulation.exit(1)
  simulation.listen(5)
  t.deepEqual(simulation.lastAction(), { type: 'retire', id: 2 })
})

test('reload with a watch: a worker that booted before the reload is none of its new ones', t => {
  const simulation = createRunningSimulation()
  simulation.exit(3)
  simulation.reload(10_000)
  simulation.listen(4)
  t.is(watchOf(simulation.fleet()), undefined)
  simulation.listen(5)
  t.is(watchOf(simulation.fleet())?.id, 5)
})

test('reload with a watch: a worker of the old code is not watched because one of the new code boots', t => {
  const simulation = createRunningSimulation()
  simulation.exit(3)
  simulation.exit(2)
  simulation.passInHealth(1000)
  simulation.reload(10_000)
  simulation.exit(5)
  simulation.passInHealth(5000)
  t.deepEqual(simulation.workerIds(), [1, 4, 6])
  simulation.listen(4)
  t.is(watchOf(simulation.fleet()), undefined)
  simulation.listen(6)
  t.is(watchOf(simulation.fleet())?.id, 6)
})

test('reload with a watch: a worker that fails it retires, and the old ones stay', t => {
  const simulation = createRunningSimulation()
  simulation.reload(10_000)
  simulation.listen(4)
  simulation.passInHealth(9000)
  simulation.pass(1000, () => [1, 2, 3])
  simulation.message(4, { databaseDownMs: 1 })
  const reason = 'the first new worker has lost the database'
  t.deepEqual(simulation.fleet().reload, { state: 'failed', reason })
  t.deepEqual(simulation.actions('retire'), [{ type: 'retire', id: 4 }])
  simulation.exit(4)
  simulation.passInHealth(60_000)
  t.deepEqual(simulation.ready(), [1, 2, 3])
})

test('reload with a watch: the old workers stay if the first new one exits or hangs', t => {
  for (const fail of ['exit', 'hang']) {
    const simulation = createRunningSimulation()
    simulation.reload(10_000)
    simulation.listen(4)
    if (fail === 'hang') {
      simulation.pass(10_000, () => [1, 2, 3])
      t.deepEqual(simulation.actions('kill'), [
        { type: 'kill', id: 4, reason: 'worker sent no message for 10000 ms' },
      ])
    }
    simulation.exit(4, 'gone')
    t.deepEqual(simulation.fleet().reload, { state: 'failed', reason: 'gone' })
    simulation.passInHealth(60_000)
    t.deepEqual(simulation.ready(), [1, 2, 3])
    t.is(simulation.actions('fork').length, 4)
  }
})

test('reload with a watch: an old worker that exits meanwhile is not replaced, the new one stands in', t => {
  const simulation = createRunningSimulation()
  simulation.reload(10_000)
  simulation.listen(4)
  simulation.exit(2)
  t.deepEqual(simulation.workerIds(), [1, 3, 4])
  simulation.passInHealth(10_000)
  simulation.listen(5)
  t.deepEqual(simulation.lastAction(), { type: 'retire', id: 1 })
})

test('reload: attempts at the start, while the database is unreachable, do not end the supervisor', t => {
  const simulation = createSimulation()
  for (let attempt = 0; attempt < fleetSettings.bootFailures; attempt++) {
    simulation.reload()
    for (let second = 0; second < 60 && simulation.fleet().reload.state === 'running'; second++) {
      simulation.pass(1000)
      for (const { id, killed, exitCause } of simulation.fleet().workers)
        if (killed) simulation.exit(id, exitCause?.reason)
        else simulation.message(id, { databaseDownMs: 1 })
    }
    t.is(simulation.fleet().reload.state, 'failed')
    t.false(simulation.ended())
  }
})

test('memory limit: a worker above it is replaced as in a reload, but not in its first 30 s', t => {
  const simulation = createRunningSimulation()
  simulation.message(2, { rssBytes: 1001 })
  t.is(simulation.workerIds().length, 3)
  simulation.passInHealth(30_000)
  simulation.message(2, { rssBytes: 1001 })
  t.deepEqual(simulation.ready(), [1, 2, 3])
  simulation.listen(4)
  t.deepEqual(simulation.lastAction(), { type: 'retire', id: 2 })
  simulation.exit(2)
  t.deepEqual(simulation.ready(), [1, 3, 4])
  t.is(simulation.actions('fork').length, 4)

  const slow = createSimulation({ ...fleetSettings, bootMs: 60_000 })
  slow.passInHealth(30_000)
  slow.message(1, { rssBytes: 1001 })
  for (const id of slow.workerIds()) slow.listen(id)
  t.deepEqual(slow.workerIds(), [1, 2, 3], 'the time of the start does not count')
})

test('memory limit: a reload ends also if the new workers exceed it, and replaces them only then', t => {
  const simulation = createRunningSimulation({ ...fleetSettings, workers: 2 })
  simulation.reload()
  for (const [old, fresh] of [
    [1, 3],
    [2, 4],
  ] as const) {
    simulation.listen(fresh)
    simulation.passInHealth(31_000)
    simulation.message(fresh, { rssBytes: 1001 })
    simulation.exit(old)
  }
  t.deepEqual(simulation.fleet().reload, { state: 'done' })
  t.deepEqual(simulation.workerIds(), [3, 4])
  simulation.message(3, { rssBytes: 1001 })
  t.deepEqual(simulation.workerIds(), [3, 4, 5])
})

test('stop: waits the drain delay, retires the workers, kills at the deadline and exits with 0', t => {
  const simulation = createRunningSimulation()
  simulation.stop(5000)
  simulation.passInHealth(4999)
  simulation.exit(1)
  t.deepEqual(simulation.actions('retire'), [])
  t.is(simulation.workerIds().length, 2, 'no replacement during a stop')
  simulation.passInHealth(1)
  t.is(simulation.actions('retire').length, 2)
  simulation.exit(2)
  simulation.passInHealth(fleetSettings.retireMs)
  t.deepEqual(simulation.actions('kill'), [
    { type: 'kill', id: 3, reason: 'worker did not exit within 32000 ms' },
  ])
  t.false(simulation.ended())
  simulation.exit(3)
  t.deepEqual(simulation.lastAction(), { type: 'exit', exitCode: 0, reason: 'all workers have exited' })
  t.is(simulation.fleet().lostWorkers, 0, 'nor are those that exit during a stop')
})

test('stop: a worker without a database is killed at the deadline, too', t => {
  const simulation = createRunningSimulation()
  simulation.exit(3)
  simulation.exit(2)
  simulation.stop(0)
  for (let ms = 0; ms < fleetSettings.retireMs; ms += 1000) {
    simulation.message(1, { databaseDownMs: ms })
    simulation.pass(1000)
  }
  t.like(simulation.lastAction(), { reason: 'worker did not exit within 32000 ms, and had no database' })
})

test('stop: a worker that boots has no requests, and is killed at once', t => {
  const simulation = createSimulation()
  simulation.listen(1)
  simulation.stop(5000)
  t.deepEqual(
    simulation.performed.filter(({ type }) => type !== 'fork'),
    [2, 3].map(id => ({ type: 'kill', id, reason: 'the service is stopping', isPlanned: true })),
  )
})

test('stop: a worker that boots and has asked for a socket can have requests, and retires when it listens', t => {
  const simulation = createSimulation()
  simulation.dispatch({ type: 'message', id: 1, message: { type: 'socket-request', label: 'http' } })
  simulation.stop(0)
  t.deepEqual(
    simulation.actions('kill').map(action => 'id' in action && action.id),
    [2, 3],
  )
  t.deepEqual(simulation.actions('retire'), [])
  simulation.listen(1)
  t.deepEqual(simulation.actions('retire'), [{ type: 'retire', id: 1 }])
})

test('stop: each further signal skips the current wait, first the delay, then the requests', t => {
  const simulation = createRunningSimulation()
  simulation.stop(5000)
  simulation.skipWait()
  t.is(simulation.actions('retire').length, 3)
  t.deepEqual(simulation.actions('kill'), [])
  simulation.passInHealth(1)
  simulation.skipWait()
  t.is(simulation.actions('kill').length, 3)
})

/** The steps of a random sequence. `pick` chooses one of the workers. */
const anyStep = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 12_000 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('listen', 'exit', 'kill', 'hang', 'growth', 'noDatabase'),
      pick: fc.nat(8),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('reload', 'stop', 'skipWait') }) },
)
type Step = typeof anyStep extends fc.Arbitrary<infer S> ? S : never

/** @param hung the workers that send no messages any more */
function perform(simulation: Simulation, step: Step, hung: Set<number>, watchMs: number): void {
  const { workers, stop, reload } = simulation.fleet()
  if (step.do === 'pass') simulation.pass(step.ms, () => simulation.workerIds().filter(id => !hung.has(id)))
  if (step.do === 'stop') simulation.stop(5000)
  if (step.do === 'skipWait') simulation.skipWait()
  // The command is refused during a stop and during another reload.
  if (step.do === 'reload' && stop === undefined && reload.state !== 'running') simulation.reload(watchMs)
  const picked = 'pick' in step ? workers[step.pick % workers.length] : undefined
  if (picked === undefined) return
  const { id, state, killed } = picked
  if (step.do === 'listen' && state === 'booting' && !killed) simulation.listen(id)
  if (step.do === 'exit') simulation.exit(id)
  if (step.do === 'kill') simulation.killFromOutside(id)
  if (step.do === 'hang') hung.add(id)
  if (step.do === 'growth') simulation.message(id, { rssBytes: 1001 })
  if (step.do === 'noDatabase') simulation.message(id, { databaseDownMs: 1 })
}

/** A worker past a deadline has been killed. */
function assertDeadlines(t: ExecutionContext, simulation: Simulation): void {
  const nowMs = simulation.nowMs()
  for (const { id, state, sinceMs, lastHeardMs, killed } of simulation.fleet().workers) {
    if (killed) continue
    t.true(nowMs - (lastHeardMs ?? nowMs) < fleetSettings.silentMs, `${id} sends no messages`)
    if (state === 'retiring') t.true(nowMs - sinceMs < fleetSettings.retireMs, `${id} does not exit`)
    if (state === 'booting') t.true(nowMs - sinceMs < fleetSettings.bootMs, `${id} does not boot`)
  }
}

/** @param workers the number of workers that should be ready @param retired the number of workers that the last step retired */
function assertService(t: ExecutionContext, simulation: Simulation, workers: number, retired: number): void {
  const fleet = simulation.fleet()
  // A worker retires only when its replacement listens.
  if (retired > 0) t.true(simulation.ready().length >= workers)
  if (watchOf(fleet) !== undefined) t.is(retired, 0)
  // At most one worker too many; a missing worker always has a scheduled replacement.
  const live = fleet.workers.filter(({ state, killed }) => state !== 'retiring' && !killed)
  t.true(live.length <= workers + 1)
  if (live.length < workers) t.true(fleet.forkAfterMs <= simulation.nowMs() + 15_000)
}

test('any sequence of events keeps the invariants', t => {
  const sequences = fc.array(anyStep, { maxLength: 60 })
  const property = fc.property(
    sequences,
    fc.integer({ min: 1, max: 4 }),
    fc.constantFrom(0, 10_000),
    (sequence, workers, watchMs) => {
      const simulation = createSimulation({ ...fleetSettings, workers })
      const hung = new Set<number>()
      for (const step of sequence) {
        const readyBefore = simulation.ready().length
        const performedBefore = simulation.performed.length
        perform(simulation, step, hung, watchMs)
        if (simulation.ended()) return
        const actions = simulation.performed.slice(performedBefore)
        const count = (type: Action['type']) => actions.filter(action => action.type === type).length
        assertDeadlines(t, simulation)
        if (simulation.fleet().stop !== undefined) t.is(count('fork'), 0)
        else {
          assertService(t, simulation, workers, count('retire'))
          if (step.do === 'reload') t.is(simulation.ready().length, readyBefore)
        }
      }
    },
  )
  fc.assert(property, { numRuns: 2000 })
  t.pass()
})
