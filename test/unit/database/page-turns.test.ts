// The turns of pages: how many run at the same time, and which of them get a trial.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { createPageTurns } from '../../../src/database/reading/page-turns.ts'

const never = async () => {
  throw new Error('the trial of a page that has its turn')
}

/** Creates pages that run until the test ends them. */
function createPages() {
  const ends: (() => void)[] = []
  return { ends, page: () => new Promise<string>(resolve => ends.push(() => resolve('slow'))) }
}

test('page turns: while a turn is free, a page runs without a trial', async t => {
  const inTurn = createPageTurns(2, 60_000)
  const { ends, page } = createPages()
  const slow = inTurn(page, never)
  t.is(await inTurn(async () => 'fast', never), 'fast')
  ends[0]?.()
  t.is(await slow, 'slow')
})

test('page turns: a fast page does not wait for slow ones, which run in their order', async t => {
  const inTurn = createPageTurns(1, 60_000)
  const { ends, page } = createPages()
  const started: number[] = []
  const slow = [1, 2, 3].map(number =>
    inTurn(
      () => {
        started.push(number)
        return page()
      },
      async () => undefined,
    ),
  )
  t.is(
    await inTurn(
      async () => 'in turn',
      async () => 'on trial',
    ),
    'on trial',
  )
  for (const [index, one] of slow.entries()) {
    t.is(started.length, index + 1)
    ends[index]?.()
    t.is(await one, 'slow')
    await nextTurn()
  }
  t.deepEqual(started, [1, 2, 3])
  t.is(await inTurn(async () => 'fast', never), 'fast')
})

test('page turns: a page whose trial begins when a turn is free again has no trial', async t => {
  const inTurn = createPageTurns(1, 60_000)
  const { ends, page } = createPages()
  const first = inTurn(page, never)
  let endTrial = (): void => {}
  const tried = inTurn(
    async () => 'in turn',
    () => new Promise<string>(resolve => (endTrial = () => resolve('on trial'))),
  )
  const next = inTurn(async () => 'in turn', never)
  ends[0]?.()
  await first
  endTrial()
  t.is(await tried, 'on trial')
  t.is(await next, 'in turn')
})

test('page turns: a page does not wait for a trial that does not end', async t => {
  const inTurn = createPageTurns(1, 60_000, 20)
  const { ends, page } = createPages()
  const first = inTurn(page, never)
  let endTrial = (): void => {}
  const tried = inTurn(
    async () => 'in turn',
    () => new Promise<undefined>(resolve => (endTrial = () => resolve(undefined))),
  )
  const next = inTurn(async () => 'in turn', never)
  ends[0]?.()
  await first
  t.is(await next, 'in turn')
  endTrial()
  t.is(await tried, 'in turn')
})

test('page turns: the error of a trial is that of the page', async t => {
  const inTurn = createPageTurns(1, 60_000)
  const { ends, page } = createPages()
  const first = inTurn(page, never)
  const failed = inTurn(page, async () => {
    throw new Error('the server is away')
  })
  await t.throwsAsync(failed, { message: 'the server is away' })
  t.is(await inTurn(page, async () => 'on trial'), 'on trial')
  ends[0]?.()
  await first
})

test('page turns: each page has its result, and no more of them run than may', async t => {
  const kinds = fc.array(
    fc.record({
      turns: fc.nat(3),
      waits: fc.nat(3),
      isFast: fc.boolean(),
      fails: fc.boolean(),
    }),
    { maxLength: 30 },
  )
  const property = fc.asyncProperty(fc.integer({ min: 1, max: 3 }), kinds, async (max, all) => {
    const inTurn = createPageTurns(max, 60_000)
    let running = 0
    let trials = 0
    const outcomes = await Promise.allSettled(
      all.map(async ({ turns, waits, isFast, fails }, index) => {
        for (let turn = 0; turn < waits; turn++) await nextTurn()
        return inTurn(
          async () => {
            t.true(++running <= max)
            for (let turn = 0; turn < turns; turn++) await nextTurn()
            running--
            if (fails) throw new Error(`${index}`)
            return index
          },
          async () => {
            t.true(++trials <= 1)
            await nextTurn()
            trials--
            return isFast ? index : undefined
          },
        )
      }),
    )
    t.deepEqual([running, trials], [0, 0])
    for (const [index, outcome] of outcomes.entries())
      if (outcome.status === 'fulfilled') t.is(outcome.value, index)
      else t.true(all[index]?.fails && outcome.reason.message === `${index}`)
  })
  await fc.assert(property, { numRuns: 100 })
})
