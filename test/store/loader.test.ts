// The loader: what gathers with what, and who gets which answer.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { createLoader } from '../../src/store/loader.ts'

test('the look-ups of one turn become one read, each key once', async t => {
  const reads: (readonly number[])[] = []
  const loader = createLoader<number, string>(async keys => {
    reads.push(keys)
    return new Map(keys.map(key => [key, `v${key}`]))
  }, 1)
  const answers = await Promise.all([loader.load([1, 2]), loader.load([2, 3]), loader.load([3])])
  t.deepEqual(answers, [['v1', 'v2'], ['v2', 'v3'], ['v3']])
  t.deepEqual(reads, [[1, 2, 3]])
})

test('a look-up never gets the answer of a read that began before it', async t => {
  let value = 'before'
  let finish = (): void => {}
  const loader = createLoader<number, string>(async keys => {
    const seen = value
    await new Promise<void>(resolve => {
      finish = resolve
    })
    return new Map(keys.map(key => [key, seen]))
  }, 1)
  const first = loader.load([1])
  await nextTurn()
  value = 'after'
  const second = loader.load([1])
  await nextTurn()
  finish()
  t.deepEqual(await first, ['before'])
  await nextTurn()
  finish()
  t.deepEqual(await second, ['after'])
})

test('a failed read fails those who waited for it, and nobody after them', async t => {
  let broken = true
  const loader = createLoader<number, string>(async keys => {
    if (broken) throw new Error('broken')
    return new Map(keys.map(key => [key, 'ok']))
  }, 1)
  const answers = await Promise.allSettled([loader.load([1]), loader.load([2])])
  t.deepEqual(
    answers.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  broken = false
  t.deepEqual(await loader.load([1]), ['ok'])
})

test('any look-ups, over any turns and lanes, get the values of their keys in their order', async t => {
  const turns = fc.array(fc.array(fc.array(fc.nat(9), { maxLength: 4 }), { maxLength: 5 }), { maxLength: 6 })
  const property = fc.asyncProperty(turns, fc.integer({ min: 1, max: 3 }), async (plan, lanes) => {
    let underWay = 0
    const loader = createLoader<number, number>(async keys => {
      t.true(++underWay <= lanes)
      await nextTurn()
      underWay--
      return new Map(keys.filter(key => key % 2 === 0).map(key => [key, key * 10]))
    }, lanes)
    const answers: Promise<void>[] = []
    for (const turn of plan) {
      for (const keys of turn)
        answers.push(
          loader.load(keys).then(values => {
            t.deepEqual(
              values,
              keys.map(key => (key % 2 === 0 ? key * 10 : undefined)),
            )
          }),
        )
      await nextTurn()
    }
    await Promise.all(answers)
  })
  await fc.assert(property, { numRuns: 200 })
})
