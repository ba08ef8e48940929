// The gatherer: what becomes one call, and who gets which result.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { createBatcher } from '../../../src/database/batcher.ts'

test('the items of one turn become one call', async t => {
  const calls: (readonly number[])[] = []
  const gather = createBatcher(
    async (items: readonly number[]) => {
      calls.push(items)
      return items.map(item => `v${item}`)
    },
    { concurrency: 1, maxSize: 10, eager: true },
  )
  t.deepEqual(await Promise.all([gather(1), gather(2), gather(2)]), ['v1', 'v2', 'v2'])
  t.deepEqual(calls, [[1, 2, 2]])
})

test('an item never gets the result of a call that began before it', async t => {
  let value = 'before'
  let finish = (): void => {}
  const gather = createBatcher(
    async (items: readonly number[]) => {
      const seen = value
      await new Promise<void>(resolve => {
        finish = resolve
      })
      return items.map(() => seen)
    },
    { concurrency: 1, maxSize: 10, eager: true },
  )
  const first = gather(1)
  await nextTurn()
  value = 'after'
  const second = gather(1)
  await nextTurn()
  finish()
  t.is(await first, 'before')
  await nextTurn()
  finish()
  t.is(await second, 'after')
})

test('a failed call fails its own items, and nobody after them', async t => {
  let broken = true
  const gather = createBatcher(
    async (items: readonly number[]) => {
      if (broken) throw new Error('broken')
      return items
    },
    { concurrency: 1, maxSize: 10, eager: true },
  )
  const answers = await Promise.allSettled([gather(1), gather(2)])
  t.deepEqual(
    answers.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  broken = false
  t.is(await gather(1), 1)
})

for (const eager of [true, false])
  test(`another lane opens for ${eager ? 'however few' : 'no fewer than are under way'}`, async t => {
    const calls: number[] = []
    let finish = (): void => {}
    const finished = new Promise<void>(resolve => {
      finish = resolve
    })
    const gather = createBatcher(
      async (items: readonly number[]) => {
        calls.push(items.length)
        await finished
        return items
      },
      { concurrency: 2, maxSize: 10, eager },
    )
    const all = [gather(1), gather(2)]
    await nextTurn()
    all.push(gather(3))
    await nextTurn()
    t.deepEqual(calls, eager ? [2, 1] : [2])
    all.push(gather(4))
    await nextTurn()
    t.deepEqual(calls, eager ? [2, 1] : [2, 2])
    finish()
    await Promise.all(all)
  })

test('any items, over any turns: each gets its own result, in calls within the limits', async t => {
  const turns = fc.array(fc.array(fc.nat(9), { maxLength: 8 }), { maxLength: 6 })
  const limits = fc.record({
    concurrency: fc.integer({ min: 1, max: 3 }),
    maxSize: fc.integer({ min: 1, max: 5 }),
    eager: fc.boolean(),
  })
  const property = fc.asyncProperty(turns, limits, async (plan, { concurrency, maxSize, eager }) => {
    let underWay = 0
    const gather = createBatcher(
      async (items: readonly number[]) => {
        t.true(++underWay <= concurrency)
        t.true(items.length <= maxSize)
        await nextTurn()
        underWay--
        return items.map(item => item * 10)
      },
      { concurrency, maxSize, eager },
    )
    const answers: Promise<boolean>[] = []
    for (const items of plan) {
      for (const item of items) answers.push(gather(item).then(value => t.is(value, item * 10)))
      await nextTurn()
    }
    await Promise.all(answers)
  })
  await fc.assert(property, { numRuns: 200 })
})
