// The batcher: which items share a batch, and which item gets which result.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { createBatcher } from '../../../src/database/batcher.ts'
import { createGate } from '../../support/gate.ts'

const valuesOf = <V>(items: readonly number[], toValue: (item: number) => V) =>
  new Map(items.map(item => [item, toValue(item)]))

/** A batch starts in the second turn, because the first one has added items. */
async function quietTurns(): Promise<void> {
  await nextTurn()
  await nextTurn()
}

test('batcher: the items of one event loop turn share a batch', async t => {
  const calls: (readonly number[])[] = []
  const submit = createBatcher(
    async (items: readonly number[]) => {
      calls.push(items)
      return valuesOf(items, item => `v${item}`)
    },
    { concurrency: 1, maxSize: 10 },
  )
  t.deepEqual(await Promise.all([submit(1), submit(2), submit(2)]), ['v1', 'v2', 'v2'])
  t.deepEqual(calls, [[1, 2]])
})

test('batcher: an item never joins a batch that has already started', async t => {
  let value = 'before'
  let finish = (): void => {}
  const submit = createBatcher(
    async (items: readonly number[]) => {
      const seen = value
      await new Promise<void>(resolve => {
        finish = resolve
      })
      return valuesOf(items, () => seen)
    },
    { concurrency: 1, maxSize: 10 },
  )
  const first = submit(1)
  await quietTurns()
  value = 'after'
  const second = submit(1)
  await quietTurns()
  finish()
  t.is(await first, 'before')
  await quietTurns()
  finish()
  t.is(await second, 'after')
})

test('batcher: a failed batch rejects its own items but not later ones', async t => {
  let broken = true
  const submit = createBatcher(
    async (items: readonly number[]) => {
      if (broken) throw new Error('broken')
      return valuesOf(items, item => item)
    },
    { concurrency: 1, maxSize: 10 },
  )
  const results = await Promise.allSettled([submit(1), submit(2)])
  t.deepEqual(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  broken = false
  t.is(await submit(1), 1)
})

test('batcher: a further batch starts with at least as many items as are in progress', async t => {
  const calls: number[] = []
  const gate = createGate()
  const submit = createBatcher(
    async (items: readonly number[]) => {
      calls.push(items.length)
      await gate.opened
      return valuesOf(items, item => item)
    },
    { concurrency: 2, maxSize: 10 },
  )
  const all = [submit(1), submit(2)]
  await quietTurns()
  all.push(submit(3))
  await quietTurns()
  t.deepEqual(calls, [2])
  all.push(submit(4))
  await quietTurns()
  t.deepEqual(calls, [2, 2])
  gate.open()
  await Promise.all(all)
})

test('batcher: items that arrive one in each turn share batches of at most 16', async t => {
  const firstSizes: number[] = []
  // Other activity on the machine can make a turn so long that a batch starts earlier.
  for (let attempt = 0; attempt < 100; attempt++) {
    const calls: number[] = []
    const submit = createBatcher(
      async (items: readonly number[]) => {
        calls.push(items.length)
        return valuesOf(items, item => item)
      },
      { concurrency: 100, maxSize: 100 },
    )
    const all: Promise<number | undefined>[] = []
    for (let item = 0; item < 20; item++) {
      all.push(submit(item))
      await nextTurn()
    }
    await Promise.all(all)
    firstSizes.push(calls[0] ?? 0)
  }
  t.is(Math.max(...firstSizes), 16)
})

test('batcher: after long turns, a batch starts although its first turn has added an item', async t => {
  const calls: number[] = []
  const submit = createBatcher(
    async (items: readonly number[]) => {
      calls.push(items.length)
      return valuesOf(items, item => item)
    },
    { concurrency: 2, maxSize: 10 },
  )
  const item = submit(1)
  for (const startMs = performance.now(); performance.now() - startMs < 5; );
  await nextTurn()
  t.deepEqual(calls, [1])
  await item
})

test('batcher: each item gets its own result, within maxSize and concurrency', async t => {
  const turns = fc.array(fc.array(fc.nat(9), { maxLength: 8 }), { maxLength: 6 })
  const limits = fc.record({
    concurrency: fc.integer({ min: 1, max: 3 }),
    maxSize: fc.integer({ min: 1, max: 5 }),
  })
  const property = fc.asyncProperty(turns, limits, async (plan, { concurrency, maxSize }) => {
    let inProgress = 0
    const submit = createBatcher(
      async (items: readonly number[]) => {
        t.true(++inProgress <= concurrency)
        t.true(items.length <= maxSize)
        await nextTurn()
        inProgress--
        return valuesOf(items, item => item * 10)
      },
      { concurrency, maxSize },
    )
    const results: Promise<boolean>[] = []
    for (const items of plan) {
      for (const item of items) results.push(submit(item).then(value => t.is(value, item * 10)))
      await nextTurn()
    }
    await Promise.all(results)
  })
  await fc.assert(property, { numRuns: 200 })
})
