// Which clients count as checkers: those that check at a steady interval, until they have been silent for three of them.
import test from 'ava'
import fc from 'fast-check'
import { createCheckers, isSteady } from '../../../src/supervisor/control-ports/checkers.ts'

const start = Date.parse('2026-01-01T00:00:00Z')
const at = (ms: number) => ({ date: new Date(start + ms), ms })
const answer = (address: string, status = 200, server_state: string | null = null) => ({
  address,
  status,
  server_state,
})
/** A check while the port serves. */
const check = (...values: Parameters<typeof answer>) => ({ ...answer(...values), maintenance: null })

/** Records a check of `http` at each of these times, in ms. */
function recordAll(checkers: ReturnType<typeof createCheckers>, address: string, times: readonly number[]) {
  for (const ms of times) checkers.record('http', check(address), at(ms))
}

/** Times that are `intervals` apart, from 0. */
function timesOf(intervals: readonly number[]): number[] {
  const times = [0]
  for (const ms of intervals) times.push((times.at(-1) ?? 0) + ms)
  return times
}

const interval = fc.integer({ min: 10, max: 20_000 })

test('checkers: the last response to each, by label', t => {
  const checkers = createCheckers()
  for (const [index, status] of [200, 200, 404].entries()) {
    checkers.record('http', check('10.0.0.1', status), at(1000 * index))
    checkers.record('http', check('10.0.0.2'), at(1000 * index + 1))
    checkers.record('https', check('10.0.0.3'), at(1000 * index + 2))
  }
  t.deepEqual(checkers.list('http', null, 2002), [
    { ...answer('10.0.0.1', 404), seen: at(2000).date.toISOString(), noticed: 0 },
    { ...answer('10.0.0.2'), seen: at(2001).date.toISOString(), noticed: 0 },
  ])
  t.deepEqual(checkers.list('other', null, 2002), [])
})

test('checkers: a client that checks once or twice is none', t => {
  const times = fc.array(interval, { maxLength: 1 }).map(timesOf)
  const property = fc.property(times, fc.nat(100_000), (checks, laterMs) => {
    const checkers = createCheckers()
    recordAll(checkers, '10.0.0.1', checks)
    t.deepEqual(checkers.list('http', null, (checks.at(-1) ?? 0) + laterMs), [])
  })
  fc.assert(property)
})

test('checkers: a person who checks now and then is none', t => {
  for (const seconds of [
    [2, 9],
    [30, 4, 12],
    [50, 5, 20, 3],
  ])
    t.false(isSteady(timesOf(seconds)), String(seconds))
  const checkers = createCheckers()
  recordAll(checkers, '10.0.0.1', timesOf([61_000, 61_000, 61_000]))
  t.deepEqual(checkers.list('http', null, 183_000), [])
})

test('checkers: from the third check on, also if the interval varies at random by a third', t => {
  const intervals = interval.chain(ms =>
    fc.array(fc.integer({ min: Math.ceil(ms * 0.67), max: Math.floor(ms * 1.33) }), {
      minLength: 2,
      maxLength: 30,
    }),
  )
  const property = fc.property(intervals, all => {
    const checkers = createCheckers()
    recordAll(checkers, '10.0.0.1', timesOf(all.slice(0, 2)))
    for (const ms of timesOf(all).slice(3)) {
      t.is(checkers.list('http', null, ms).length, 1)
      checkers.record('http', check('10.0.0.1'), at(ms))
    }
  })
  fc.assert(property)
})

test('checkers: several processes at one address, whatever the offsets of their checks', t => {
  const offsets = fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 3 })
  const property = fc.property(interval, offsets, (ms, shares) => {
    const times = Array.from({ length: 7 }, (_, round) =>
      shares.map(share => Math.floor(ms * (round + share))),
    )
    const sorted = times.flat().sort((a, b) => a - b)
    const checkers = createCheckers()
    for (const [index, time] of sorted.entries()) {
      // Each has checked twice, and once more.
      if (index > 2 * shares.length) t.is(checkers.list('http', null, time).length, 1)
      recordAll(checkers, '10.0.0.1', [time])
    }
  })
  fc.assert(property)
})

test('checkers: HAProxy processes at one address are told apart by their names', t => {
  const checkers = createCheckers()
  for (const second of [0, 1, 2])
    for (const node of ['lb1', 'lb2'])
      checkers.record(
        'http',
        check('10.0.0.1', 200, `UP; name=b/s; node=${node}; scur=${second}`),
        at(1000 * second),
      )
  t.deepEqual(
    checkers.list('http', null, 2000).map(({ server_state }) => server_state),
    ['UP; name=b/s; node=lb1; scur=2', 'UP; name=b/s; node=lb2; scur=2'],
  )
})

test('checkers: forgotten after three intervals without a check', t => {
  const property = fc.property(interval, fc.integer({ min: 3, max: 20 }), (ms, count) => {
    const checkers = createCheckers()
    const times = timesOf(Array(count - 1).fill(ms))
    recordAll(checkers, '10.0.0.1', times)
    const last = times.at(-1) ?? 0
    t.is(checkers.list('http', null, last + 3 * ms - 1).length, 1)
    t.is(checkers.list('http', null, last + 3 * ms).length, 0)
    recordAll(checkers, '10.0.0.1', [last + 70_000])
    t.is(checkers.list('http', null, last + 70_000).length, 0, 'it starts anew')
  })
  fc.assert(property)
})

test('checkers: a shorter interval after a change of state, and back: never forgotten', t => {
  const checkers = createCheckers()
  const times = timesOf([2000, 2000, 2000, 500, 500, 500, 2000, 2000])
  recordAll(checkers, '10.0.0.1', times.slice(0, 3))
  for (const ms of times.slice(3)) {
    t.is(checkers.list('http', null, ms).length, 1, String(ms))
    recordAll(checkers, '10.0.0.1', [ms])
  }
})

test('checkers: a longer interval before does not count for ever', t => {
  const checkers = createCheckers()
  const shorter = Array<number>(7).fill(1000)
  recordAll(checkers, '10.0.0.1', timesOf([10_000, 10_000, ...shorter]))
  t.is(checkers.list('http', null, 29_999).length, 1)
  t.is(checkers.list('http', null, 30_000).length, 0)
})

test('checkers: one that checks each 50 s stays known if it misses a check, and is forgotten after three minutes', t => {
  const checkers = createCheckers()
  recordAll(checkers, '10.0.0.1', [0, 50_000, 100_000, 220_000])
  t.is(checkers.list('http', null, 399_999).length, 1)
  t.is(checkers.list('http', null, 400_000).length, 0)
})

test('checkers: at most 4096 clients of a port are kept, those that have checked last', t => {
  const checkers = createCheckers()
  const all = Array.from({ length: 4100 }, (_, host) => `10.0.${host >> 8}.${host & 255}`)
  for (const second of [0, 1, 2])
    for (const address of all.slice(0, 4096)) recordAll(checkers, address, [1000 * second])
  t.is(checkers.list('http', null, 2000).length, 4096)
  // Each of the new ones displaces the one before it, which is no checker.
  for (const address of ['10.0.0.1', ...all.slice(4096)]) recordAll(checkers, address, [2000])
  const left = checkers.list('http', null, 2000).map(({ address }) => address)
  t.deepEqual(left, [...all.slice(2, 4096), '10.0.0.1'])
})

test('checkers: one that is known stays known, whatever names another client sends', t => {
  const checkers = createCheckers()
  for (const second of [0, 1, 2, 3]) {
    recordAll(checkers, '10.0.0.1', [1000 * second])
    for (let server = 0; second > 1 && server < 4096; server++)
      checkers.record(
        'http',
        check('10.0.0.2', 200, `name=b/${second}.${server}; node=lb`),
        at(1000 * second),
      )
  }
  t.deepEqual(
    checkers.list('http', null, 3000).map(({ address }) => address),
    ['10.0.0.1'],
  )
})

test('checkers: a wall clock that is set back forgets none', t => {
  const checkers = createCheckers()
  for (const ms of [0, 1000, 2000]) checkers.record('http', check('10.0.0.1'), at(ms))
  checkers.record('http', check('10.0.0.1'), { date: new Date(start - 3_600_000), ms: 3000 })
  t.is(checkers.list('http', null, 3500).length, 1)
  t.is(checkers.list('http', null, 6000).length, 0, 'forgotten after three intervals')
})

test('checkers: the number of checks that each maintenance has failed', t => {
  const checkers = createCheckers()
  const noticed = (maintenance: string | null) =>
    checkers.list('http', maintenance, 4900).map(checker => checker.noticed)
  recordAll(checkers, '10.0.0.1', [0, 1000, 2000])
  t.deepEqual(noticed('first'), [0])
  for (const [count, ms] of [3000, 4000].entries()) {
    checkers.record('http', { ...answer('10.0.0.1', 404), maintenance: 'first' }, at(ms))
    t.deepEqual(noticed('first'), [count + 1])
  }
  t.deepEqual(noticed(null), [0], 'the port serves again')
  t.deepEqual(noticed('second'), [0], 'a maintenance that began between two checks')
  checkers.record('http', { ...answer('10.0.0.1', 404), maintenance: 'second' }, at(5000))
  t.deepEqual(noticed('second'), [1])
})
