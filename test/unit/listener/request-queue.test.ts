// The order in which the requests of one connection run.
import test from 'ava'
import fc from 'fast-check'
import { createRequestQueue } from '../../../src/listener/request-queue.ts'

const isSafe = (method: string | undefined) => method === 'GET' || method === 'HEAD'

test('request queue: each request runs once, in order, and an unsafe request runs alone', t => {
  // A method adds a request. A number selects the running request that finishes.
  const events = fc.array(fc.oneof(fc.constantFrom('GET', 'HEAD', 'POST', 'DELETE'), fc.nat(5)))
  const property = fc.property(events, plan => {
    const queue = createRequestQueue()
    const methods: string[] = []
    const started: number[] = []
    const running: number[] = []
    const finish = (index: number) => {
      running.splice(index, 1)
      queue.requestFinished()
    }
    for (const event of plan) {
      if (typeof event === 'string') {
        const number = methods.push(event) - 1
        queue.enqueue(event, () => {
          started.push(number)
          running.push(number)
        })
      } else if (running.length > 0) finish(event % running.length)
      t.true(running.length <= 1 || running.every(number => isSafe(methods[number])))
      // A request is queued only if it may not run yet.
      const next = methods[started.length]
      if (next !== undefined)
        t.false(running.length === 0 || (isSafe(next) && running.every(number => isSafe(methods[number]))))
    }
    while (running.length > 0) finish(0)
    t.deepEqual(started, [...methods.keys()])
  })
  fc.assert(property)
})
