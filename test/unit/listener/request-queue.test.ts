// Whose turn it is on one connection.
import test from 'ava'
import fc from 'fast-check'
import { createRequestQueue } from '../../../src/listener/request-queue.ts'

const isSafe = (method: string | undefined) => method === 'GET' || method === 'HEAD'

test('any requests, answered in any order: each is served once, in its turn, and nothing beside what is unsafe', t => {
  // A number says which of those that are being served gets its answer; a method is a new request.
  const events = fc.array(fc.oneof(fc.constantFrom('GET', 'HEAD', 'POST', 'DELETE'), fc.nat(5)))
  const property = fc.property(events, plan => {
    const turns = createRequestQueue()
    const methods: string[] = []
    const served: number[] = []
    const serving: number[] = []
    const end = (which: number) => {
      serving.splice(which, 1)
      turns.ended()
    }
    for (const event of plan) {
      if (typeof event === 'string') {
        const number = methods.push(event) - 1
        turns.take(event, () => {
          served.push(number)
          serving.push(number)
        })
      } else if (serving.length > 0) end(event % serving.length)
      t.true(serving.length <= 1 || serving.every(number => isSafe(methods[number])))
      // Nobody waits without a reason.
      const next = methods[served.length]
      if (next !== undefined)
        t.false(serving.length === 0 || (isSafe(next) && serving.every(number => isSafe(methods[number]))))
    }
    while (serving.length > 0) end(0)
    t.deepEqual(served, [...methods.keys()])
  })
  fc.assert(property)
})
