// Which concurrent calls share one read.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import fc from 'fast-check'
import { shareConcurrent } from '../../../src/api/resources/share-concurrent.ts'

test('calls of one turn with the same key share one read, and its failure', async t => {
  const share = shareConcurrent<string>()
  let reads = 0
  const read = async () => `read ${++reads}`
  t.deepEqual(await Promise.all([share('a', read), share('b', read), share('a', read)]), [
    'read 1',
    'read 2',
    'read 1',
  ])
  const fail = () => Promise.reject(new Error('away'))
  const outcomes = await Promise.allSettled([share('a', fail), share('a', read)])
  t.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
})

test('a read begins after all calls that share it', async t => {
  const step = fc.record({ write: fc.boolean(), key: fc.constantFrom('a', 'b'), turns: fc.nat(3) })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async steps => {
      const share = shareConcurrent<number>()
      let version = 0
      const readers: Promise<boolean>[] = []
      for (const { write, key, turns } of steps) {
        if (write) version++
        const written = version
        const read = async () => {
          const found = version
          await nextTurn()
          return found
        }
        readers.push(share(key, read).then(found => found >= written))
        for (let turn = 0; turn < turns; turn++) await nextTurn()
      }
      t.true((await Promise.all(readers)).every(Boolean))
    }),
  )
})
