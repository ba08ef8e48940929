// The fleet's plan, against a made-up world in which processes boot, fall silent, die and obey as chance will have it.
import test from 'ava'
import fc from 'fast-check'
import { emptyFleet, type Fleet, type FleetEvent, reduce } from '../../../src/supervisor/cluster/fleet.ts'
import { type Limits, plan, type Step } from '../../../src/supervisor/cluster/plan.ts'

const limits: Limits = { workers: 3, bootMs: 30_000, silentMs: 10_000, retireMs: 32_000, bootFailures: 5 }

/** The fleet and its clock: each event is recorded and the plan is then followed, as cluster.ts does. */
function createWorld(wanted: Limits = limits) {
  let fleet: Fleet = emptyFleet
  let nowMs = 1000
  let nextId = 1
  let wakeAtMs = Infinity
  const done: Step[] = []
  const deaths: number[] = []

  function record(event: FleetEvent): void {
    fleet = reduce(fleet, event, wanted.workers, nowMs)
  }

  function follow(): void {
    for (let turn = 0; turn < 20; turn++) {
      const next = plan(fleet, wanted, nowMs)
      wakeAtMs = next.wakeAtMs
      if (next.steps.length === 0) return
      for (const step of next.steps) {
        done.push(step)
        if (step.do === 'end') return
        if (step.do === 'fork') record({ type: 'forked', id: nextId++ })
        if (step.do === 'retire') record({ type: 'retired', id: step.id })
        if (step.do === 'kill') record({ type: 'killed', id: step.id })
      }
    }
    throw new Error('the plan never comes to rest')
  }

  const world = {
    done,
    deaths,
    fleet: () => fleet,
    nowMs: () => nowMs,
    wakeAtMs: () => wakeAtMs,
    ended: () => done.at(-1)?.do === 'end',
    steps: (kind: Step['do']) => done.filter(step => step.do === kind),
    ready: () =>
      fleet.workers.filter(({ state, killed }) => state === 'ready' && !killed).map(({ id }) => id),
    happen(event: FleetEvent): void {
      record(event)
      follow()
    },
    hear(id: number, withoutDatabase = false, overweight = false): void {
      world.happen({ type: 'message', id, withoutDatabase, overweight })
    },
    die(id: number, reason = 'it ended with exit code 1', fromOutside = false): void {
      world.happen({ type: 'exited', id, death: { reason, fromOutside } })
    },
    /** It says that no other will come up, either. */
    dieForGood(id: number): void {
      const death = { reason: 'a fault in the settings', fromOutside: false, exitCode: 78 }
      world.happen({ type: 'exited', id, death })
    },
    listen(id: number): void {
      world.happen({ type: 'listening', id })
    },
    /** Time goes by: whoever is in `beating` says so in time. */
    pass(ms: number, beating: () => readonly number[] = () => []): void {
      const untilMs = nowMs + ms
      while (nowMs < untilMs) {
        nowMs = Math.min(untilMs, nowMs + 1000, Math.max(nowMs + 1, Math.ceil(wakeAtMs)))
        for (const id of beating()) record({ type: 'message', id, withoutDatabase: false, overweight: false })
        follow()
      }
    },
    everybody: () => fleet.workers.map(({ id }) => id),
  }
  follow()
  return world
}

/** A world in which all workers listen. */
function runningWorld() {
  const world = createWorld()
  for (const id of world.everybody()) {
    world.hear(id)
    world.listen(id)
  }
  return world
}

test('so many workers are forked as are wanted', t => {
  t.deepEqual(
    createWorld()
      .fleet()
      .workers.map(({ state }) => state),
    ['booting', 'booting', 'booting'],
  )
})

test('a worker that had been ready is replaced at once, and then with backoff up to 15 s', t => {
  const world = runningWorld()
  const gaps: number[] = []
  for (let crash = 0; crash < 11; crash++) {
    const forks = world.steps('fork').length
    const diedMs = world.nowMs()
    world.die(world.everybody().at(-1) ?? 0)
    while (world.steps('fork').length === forks) world.pass(1, world.everybody)
    gaps.push(world.nowMs() - diedMs)
    const replacement = world.everybody().at(-1) ?? 0
    world.listen(replacement)
    world.pass(1000, world.everybody)
  }
  t.deepEqual(gaps, [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000])

  world.pass(30_000, world.everybody)
  const forks = world.steps('fork').length
  world.die(world.everybody().at(-1) ?? 0)
  t.is(world.steps('fork').length, forks + 1, 'after 30 s the past is forgotten')
})

test('who is killed from outside is replaced at once, however often', t => {
  const world = runningWorld()
  for (let kills = 0; kills < 60; kills++) {
    world.die(world.ready()[0] ?? 0, 'it ended with SIGKILL', true)
    t.is(world.fleet().workers.length, 3)
    world.pass(500, world.everybody)
    world.listen(world.everybody().at(-1) ?? 0)
    world.pass(500, world.everybody)
  }
})

test('who is killed from outside before it ever came up counts as a failure, unless others are ready', t => {
  const world = createWorld()
  for (let round = 0; round < 5; round++) {
    world.pass(500, world.everybody)
    for (const id of world.everybody()) world.die(id, 'it ended with SIGKILL', true)
    world.pass(14_500, world.everybody)
  }
  t.like(world.done.at(-1), { do: 'end', exitCode: 70 })

  const running = runningWorld()
  running.die(1)
  for (let kills = 0; kills < 10; kills++) {
    running.pass(500, running.everybody)
    running.die(running.everybody().at(-1) ?? 0, 'it ended with SIGKILL', true)
    t.is(running.everybody().length, 3)
  }
})

test('workers that never come up end the supervisor, with the reason', t => {
  const world = createWorld()
  for (let round = 0; round < 10 && !world.ended(); round++) {
    world.pass(500, world.everybody)
    for (const id of world.everybody()) world.die(id, 'the code throws')
    world.pass(15_000 - 500, world.everybody)
  }
  t.deepEqual(world.done.at(-1), { do: 'end', exitCode: 70, reason: 'no worker comes up: the code throws' })
  t.is(world.steps('fork').length, 5 * limits.workers, 'those of one round count once')
})

test('a reason that only a person can mend ends it at once, but never while a worker serves', t => {
  const death = { reason: 'run npm run migrate', exitCode: 78, fromOutside: false }
  const world = createWorld()
  world.happen({ type: 'exited', id: 1, death })
  t.deepEqual(world.done.at(-1), {
    do: 'end',
    exitCode: 78,
    reason: 'no worker comes up: run npm run migrate',
  })

  const serving = runningWorld()
  serving.die(1)
  serving.happen({ type: 'exited', id: 4, death })
  t.false(serving.ended())
  t.deepEqual(serving.ready(), [2, 3])
})

test('who does not listen in time is killed, but not for want of a database', t => {
  const world = createWorld()
  world.pass(29_000, () => [1, 2, 3])
  for (let second = 0; second < 20; second++) {
    world.hear(1, true)
    world.pass(1000)
  }
  const reason = 'it did not listen within 30000 ms'
  const first = [
    { do: 'kill', id: 2, reason },
    { do: 'kill', id: 3, reason },
  ]
  t.deepEqual(world.steps('kill'), first)
  // The database has come: now there is no more excuse, but all the time again.
  world.pass(28_999, () => [1])
  t.deepEqual(world.steps('kill').slice(0, 2), first)
  t.true(world.everybody().includes(1))
  world.pass(1, () => [1])
  t.true(world.steps('kill').some(step => step.do === 'kill' && step.id === 1))
})

test('silence is a death sentence', t => {
  const world = runningWorld()
  world.pass(9999, () => [1, 2])
  t.deepEqual(world.steps('kill'), [])
  world.pass(1, () => [1, 2])
  t.deepEqual(world.steps('kill'), [{ do: 'kill', id: 3, reason: 'it said nothing for 10000 ms' }])
  t.deepEqual(
    world.fleet().workers.map(({ id }) => id),
    [1, 2, 3, 4],
    'it is replaced before its end is known',
  )
})

test('a supervisor that was stopped itself blames nobody', t => {
  const world = runningWorld()
  world.happen({ type: 'clockJump' })
  t.deepEqual(world.steps('kill'), [])
})

test('a reload replaces one worker after another, the new one first', t => {
  const world = runningWorld()
  world.happen({ type: 'reload' })
  for (const [old, fresh] of [
    [1, 4],
    [2, 5],
    [3, 6],
  ] as const) {
    t.is(world.everybody().at(-1), fresh)
    t.is(world.ready().length, 3)
    world.listen(fresh)
    t.deepEqual(world.done.at(-1), { do: 'retire', id: old })
    t.is(world.fleet().workers.length, 4, 'the next waits until the old one has ended')
    world.die(old)
  }
  t.deepEqual(world.fleet().reload, { state: 'done' })
  t.deepEqual(world.ready(), [4, 5, 6])
})

test('a reload stops where the new code does not come up', t => {
  const world = runningWorld()
  world.happen({ type: 'reload' })
  world.die(4, 'it ended with exit code 1')
  t.deepEqual(world.fleet().reload, { state: 'failed', reason: 'it ended with exit code 1' })
  world.pass(60_000, world.everybody)
  t.deepEqual(world.everybody(), [1, 2, 3])
})

test('a reload that failed for good costs nothing later: who dies is replaced', t => {
  const world = runningWorld()
  world.happen({ type: 'reload' })
  world.dieForGood(4)
  for (const id of [1, 2, 3]) world.die(id, 'it ended with SIGKILL', true)
  world.pass(60_000, world.everybody)
  t.is(world.steps('end').length, 0)
  t.true(world.everybody().length >= 3)
})

test('a reload does not wait for a database', t => {
  const world = runningWorld()
  world.happen({ type: 'reload' })
  for (let second = 0; second < 30; second++) {
    for (const id of [1, 2, 3]) world.hear(id)
    world.hear(4, true)
    world.pass(1000)
  }
  t.deepEqual(world.steps('kill'), [{ do: 'kill', id: 4, reason: 'it did not listen within 30000 ms' }])
  world.die(4, 'it did not listen within 30000 ms')
  t.is(world.fleet().reload.state, 'failed')
  t.is(world.steps('fork').length, 4, 'nor tries again')
})

test('a worker over its memory is replaced as in a reload, if it did not start so', t => {
  const world = runningWorld()
  world.hear(2, false, true)
  t.is(world.everybody().length, 3)
  world.pass(30_000, world.everybody)
  world.hear(2, false, true)
  t.deepEqual(world.ready(), [1, 2, 3])
  world.listen(4)
  t.deepEqual(world.done.at(-1), { do: 'retire', id: 2 })
  world.die(2)
  t.deepEqual(world.ready(), [1, 3, 4])
  t.is(world.steps('fork').length, 4)
})

test('a stop waits the delay, retires, cuts at the deadline and ends with 0', t => {
  const world = runningWorld()
  world.happen({ type: 'stop', delayMs: 5000 })
  world.pass(4999, world.everybody)
  world.die(1)
  t.deepEqual(world.steps('retire'), [])
  t.is(world.everybody().length, 2, 'nobody is replaced any more')
  world.pass(1, world.everybody)
  t.is(world.steps('retire').length, 2)
  world.die(2)
  world.pass(limits.retireMs, world.everybody)
  t.deepEqual(world.steps('kill'), [{ do: 'kill', id: 3, reason: 'it did not end in time' }])
  t.false(world.ended())
  world.die(3)
  t.deepEqual(world.done.at(-1), { do: 'end', exitCode: 0, reason: 'all workers have ended' })
})

test('each further signal skips the wait that is on: the delay, then the requests', t => {
  const world = runningWorld()
  world.happen({ type: 'stop', delayMs: 5000 })
  world.happen({ type: 'skipWait' })
  t.is(world.steps('retire').length, 3)
  t.deepEqual(world.steps('kill'), [])
  world.pass(1, world.everybody)
  world.happen({ type: 'skipWait' })
  t.is(world.steps('kill').length, 3)
})

test('whatever happens, the promises hold', t => {
  const action = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 12_000 }) }),
    },
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constantFrom('listen', 'die', 'kill', 'silence', 'weight', 'noDatabase'),
        pick: fc.nat(8),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('reload', 'stop', 'skipWait', 'clockJump') }) },
  )
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (actions, workers) => {
      const world = createWorld({ ...limits, workers })
      const silent = new Set<number>()
      const beating = () => world.everybody().filter(id => !silent.has(id))

      for (const one of actions) {
        if (world.ended()) return
        const readyBefore = world.ready().length
        const stepsBefore = world.done.length
        const picked = 'pick' in one ? world.fleet().workers[one.pick % world.everybody().length] : undefined
        if (one.do === 'pass') world.pass('ms' in one ? one.ms : 0, beating)
        else if (one.do === 'reload') {
          if (world.fleet().stop === undefined) world.happen({ type: 'reload' })
        } else if (one.do === 'stop') world.happen({ type: 'stop', delayMs: 5000 })
        else if (one.do === 'skipWait' || one.do === 'clockJump') world.happen({ type: one.do })
        else if (picked !== undefined) {
          if (one.do === 'listen' && picked.state === 'booting' && !picked.killed) world.listen(picked.id)
          if (one.do === 'die') world.die(picked.id)
          if (one.do === 'kill') world.die(picked.id, 'it ended with SIGKILL', true)
          if (one.do === 'silence') silent.add(picked.id)
          if (one.do === 'weight') world.hear(picked.id, false, true)
          if (one.do === 'noDatabase') world.hear(picked.id, true)
        }

        const fleet = world.fleet()
        const steps = world.done.slice(stepsBefore)
        const live = fleet.workers.filter(({ state, killed }) => state !== 'retiring' && !killed)
        if (world.ended()) return
        // Every missed deadline ends in a kill.
        for (const { id, state, sinceMs, lastHeardMs, killed } of fleet.workers) {
          if (killed) continue
          if (lastHeardMs !== undefined)
            t.true(world.nowMs() - lastHeardMs < limits.silentMs, `${id} is silent`)
          if (state === 'retiring') t.true(world.nowMs() - sinceMs < limits.retireMs, `${id} does not end`)
          if (state === 'booting') t.true(world.nowMs() - sinceMs < limits.bootMs, `${id} does not boot`)
        }
        if (fleet.stop !== undefined) {
          t.false(steps.some(step => step.do === 'fork'))
          continue
        }
        // Nobody is asked to go before somebody new listens.
        const left = steps.filter(step => step.do === 'retire').length
        if (left > 0) t.true(world.ready().length >= workers)
        if (one.do === 'reload') t.is(world.ready().length, readyBefore)
        // Never more than one too many, and nobody missing without a date for the replacement.
        t.true(live.length <= workers + 1)
        if (live.length < workers) t.true(world.wakeAtMs() <= world.nowMs() + 15_000)
      }
    }),
    { numRuns: 2000 },
  )
  t.pass()
})
