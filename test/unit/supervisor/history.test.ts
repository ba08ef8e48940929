// The series of the status page.
import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
import { noTraffic } from '../../../src/core/traffic-totals.ts'
import { createHistory } from '../../../src/supervisor/control-ports/history.ts'
import { until } from '../../support/until.ts'

test('history: a sample that is late does not change the rates', async t => {
  const seconds = [0, 1, 2, 12, 13, 14]
  const taken: number[] = []
  const history = createHistory(['http'], () => {
    const second = seconds[taken.length] ?? 15
    taken.push(second)
    return {
      atMs: second * 1000,
      totals: {
        ports: { http: { ...noTraffic, responses: { '2xx': second * 7 } } },
        cache: { hits: 0, misses: 0 },
      },
      connections: {},
    }
  })
  await until(() => taken.length === seconds.length)
  t.deepEqual(history.ports().http?.requests, [7, 7, 7, 7, 7])
})

test.serial('history: the samples of five minutes are kept', async t => {
  const { setInterval } = globalThis
  t.teardown(() => Object.assign(globalThis, { setInterval }))
  let takeSample = (): void => {}
  const takeTask = (task: () => void) => {
    takeSample = task
    return { unref() {} }
  }
  Object.assign(globalThis, { setInterval: takeTask })
  const totals = { ports: {}, cache: { hits: 0, misses: 0 } }
  const history = createHistory([], () => ({ atMs: 0, totals, connections: {} }))
  for (let second = 0; second < 400; second++) {
    takeSample()
    await turn()
  }
  // The rate of the first one is that since the third one before it.
  t.is(history.cacheHitRatio().length, 300 + 2)
})
