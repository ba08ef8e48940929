// Semaphores: how many operations are in progress, and in which order they start.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { createSemaphore } from '../../../src/core/semaphore.ts'

test('semaphore: runs all operations in order, at most `max` at a time, also if some fail', async t => {
  const operations = fc.array(fc.record({ turns: fc.nat(3), fails: fc.boolean() }), { maxLength: 30 })
  const property = fc.asyncProperty(fc.integer({ min: 1, max: 4 }), operations, async (max, all) => {
    const run = createSemaphore(max, 60_000)
    const started: number[] = []
    let inProgress = 0
    const outcomes = await Promise.allSettled(
      all.map(({ turns, fails }, index) =>
        run(async () => {
          started.push(index)
          inProgress++
          t.true(inProgress <= max)
          for (let turn = 0; turn < turns; turn++) await nextTurn()
          inProgress--
          if (fails) throw new Error('failed')
        }),
      ),
    )
    t.deepEqual(started, [...all.keys()])
    t.deepEqual(
      outcomes.map(({ status }) => status === 'rejected'),
      all.map(({ fails }) => fails),
    )
  })
  await fc.assert(property, { numRuns: 50 })
})

test('semaphore: a call that comes while an operation runs that has waited waits, too', async t => {
  const run = createSemaphore(1, 60_000)
  const ends: (() => void)[] = []
  const start = () => run(() => new Promise<void>(resolve => ends.push(resolve)))
  const running = [start(), start()]
  ends[0]?.()
  await running[0]
  await nextTurn()
  running.push(start())
  await nextTurn()
  t.is(ends.length, 2)
  ends[1]?.()
  await running[1]
  await nextTurn()
  ends[2]?.()
  await running[2]
})

test('semaphore: an operation that cannot start in time is unavailable, and later ones still run', async t => {
  const run = createSemaphore(1, 20)
  let finish = (): void => {}
  const first = run(
    () =>
      new Promise<void>(resolve => {
        finish = resolve
      }),
  )
  await t.throwsAsync(
    run(async () => t.fail()),
    { any: true, code: 'unavailable', message: 'too many requests are in progress, please try again' },
  )
  finish()
  await first
  t.is(await run(async () => 'ran'), 'ran')
})

test('semaphore: urgent calls run before those that wait already, in their order', async t => {
  const run = createSemaphore(1, 60_000)
  const started: number[] = []
  const call = (number: number, isUrgent?: boolean) =>
    run(async () => {
      started.push(number)
      await nextTurn()
    }, isUrgent)
  await Promise.all([call(1), call(2), call(3, true), call(4), call(5, true)])
  t.deepEqual(started, [1, 3, 5, 2, 4])
})
