// The lane without a database: which writes share a transaction, which ones wait, and what a writer must record.
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { ApiError, unavailable } from '../../../src/core/api-error.ts'
import { createSemaphore } from '../../../src/core/semaphore.ts'
import type { Change } from '../../../src/database/changes.ts'
import type { Receipt } from '../../../src/database/idempotency-rows.ts'
import { createLane } from '../../../src/database/lane/lane.ts'
import type { Result } from '../../../src/database/lane/outcome.ts'
import type { WriterOptions } from '../../../src/database/lane/writer.ts'
import type { Transaction } from '../../../src/database/transaction.ts'
import { users } from '../../../src/model/users.ts'
import { createGate } from '../../support/gate.ts'
import { origin } from '../../support/writers.ts'

interface Write {
  readonly origin: typeof origin
  readonly keys: readonly string[]
  readonly number: number
}

const row = { id: 1, version: 1 }
const write = (number: number, ...keys: string[]): Write => ({ origin, keys, number })
const locked = () => Object.assign(new Error('locked'), { code: 'ER_LOCK_NOWAIT' })
const conflict = () => Object.assign(new Error('deadlock'), { code: 'ER_LOCK_DEADLOCK' })

/** A write that saves its response. @param refusal why there is no response */
const receipt = (key: string, refusal?: ApiError): Receipt => ({
  key,
  fingerprint: 'request',
  keepSeconds: 60,
  responseOf(result) {
    if (refusal !== undefined) throw refusal
    return { status: 200, location: null, etag: null, body: JSON.stringify(result) }
  },
})
const answer = receipt('').responseOf([{ row, changed: true }])

/** Returns a transaction that records. The writers of these tests send no statements. All Idempotency-Keys are new. */
function transaction(): Transaction {
  const changes: Change[] = []
  return {
    select: () => Promise.reject(new Error('no query of Knex is expected')),
    query: async () => [],
    execute: async (_, [rows]) => ({
      insertId: 0,
      affectedRows: Array.isArray(rows) ? 2 * rows.length : 1,
    }),
    record: change => void changes.push(change),
    changes,
  }
}

interface Options
  extends Partial<Parameters<typeof createLane>[0]>,
    Pick<WriterOptions<Write>, 'held' | 'awaitLock'> {}

/** Opens a lane with one writer, and collects the groups of numbers that it writes. */
function open(
  apply: (group: readonly Write[]) => Promise<readonly (Result | 'locked')[]>,
  { held, awaitLock, ...options }: Options = {},
) {
  const groups: number[][] = []
  const lane = createLane({
    attempt: act => act(transaction()),
    inSingleSlot: operation => operation(),
    maxWaiting: 1,
    timeoutMs: 10_000,
    ...options,
  })
  const writer = lane.createWriter<Write>({
    ...(held && { held }),
    ...(awaitLock && { awaitLock }),
    keysOf: ({ keys }) => keys,
    async apply(trx, items) {
      groups.push(items.map(({ number }) => number))
      const results = await apply(items)
      for (const item of items)
        trx.record({ type: 'updated', resource: users, id: 1, before: item.number, after: 1, origin })
      return results
    },
  })
  return { ...writer, groups, keysInUse: lane.keysInUse }
}
/** Returns so many keys that a write of them has a transaction of its own. */
const manyKeys = (number: number) => Array.from({ length: 201 }, (_, at) => `${number} ${at}`)
const stored: Result = [{ row, changed: true }]
const storeAll = async (items: readonly Write[]) => items.map(() => stored)

test('lane: writes of different keys share a transaction, and so do those of one key, in their order', async t => {
  const lane = open(storeAll)
  await Promise.all([write(1, 'a'), write(2, 'b'), write(3, 'a'), write(4, 'a', 'b')].map(lane.write))
  t.deepEqual(lane.groups, [[1, 2, 3, 4]])
  t.is(lane.keysInUse(), 0)
})

test('lane: three transactions run at once, and the writes that wait meanwhile share the next one', async t => {
  const { open: end, opened: ended } = createGate()
  const lane = open(async items => {
    await ended
    return items.map(() => stored)
  })
  const writes: Promise<unknown>[] = []
  const send = async (numbers: readonly number[]) => {
    for (const number of numbers) writes.push(lane.write(write(number, `${number}`)))
    for (let turn = 0; turn < 20; turn++) await nextTurn()
  }
  for (const number of [1, 2, 3]) await send([number])
  await send([4])
  await send([5])
  t.deepEqual(lane.groups, [[1], [2], [3]])
  end()
  await Promise.all(writes)
  t.deepEqual(lane.groups, [[1], [2], [3], [4, 5]])
})

test('lane: writes that wait for one of their key share the next transaction, in their order', async t => {
  const { open: end, opened: ended } = createGate()
  const lane = open(async items => {
    await ended
    return items.map(() => stored)
  })
  const writes = [lane.write(write(1, 'a'))]
  for (let turn = 0; turn < 20; turn++) await nextTurn()
  for (const number of [2, 3, 4]) writes.push(lane.write(write(number, 'a')))
  for (let turn = 0; turn < 20; turn++) await nextTurn()
  end()
  await Promise.all(writes)
  t.deepEqual(lane.groups, [[1], [2, 3, 4]])
})

test('lane: a locked write delays only writes that share a key with it', async t => {
  let held = true
  const lane = open(async items =>
    items.map(({ keys }) => (held && keys.includes('held') ? 'locked' : stored)),
  )
  let answered = 0
  const send = (one: Write) => lane.write(one).then(() => answered++)
  const waiting = [write(1, 'held'), write(2, 'held', 'other')].map(send)
  t.is(await lane.write(write(9, 'free')), stored)
  waiting.push(send(write(3, 'other', 'third')))
  for (let number = 10; number < 20; number++) t.is(await lane.write(write(number, 'free')), stored)
  t.is(answered, 0)
  held = false
  await Promise.all(waiting)
  t.is(lane.keysInUse(), 0)
})

test('lane: after an error about a lock, only the writes that need it wait', async t => {
  let held = true
  const lane = open(async items => {
    if (held && items.some(({ keys }) => keys.includes('held'))) throw locked()
    return items.map(() => stored)
  })
  const waiting = lane.write(write(0, 'held'))
  const free = [1, 2, 3, 4, 5].map(number => lane.write(write(number, `free ${number}`)))
  for (const one of await Promise.all(free)) t.is(one, stored)
  held = false
  t.is(await waiting, stored)
})

test('lane: writes that another session holds up are looked for, and are not tried until they are free', async t => {
  let isFree = false
  let looks = 0
  const hasLookedAgain = createGate()
  const needsLock = ({ keys }: Write) => !isFree && keys.includes('held')
  const lane = open(
    async items => {
      if (items.some(needsLock)) throw locked()
      return items.map(() => stored)
    },
    {
      async held(items) {
        if (++looks === 6) hasLookedAgain.open()
        return new Set(items.filter(needsLock))
      },
    },
  )
  const waiting = [lane.write(write(1, 'held')), lane.writeOnce(write(2, 'held'), receipt('k'))]
  const free = [3, 4, 5].map(number => lane.write(write(number, `free ${number}`)))
  for (const one of await Promise.all(free)) t.is(one, stored)
  await hasLookedAgain.opened
  t.deepEqual(lane.groups, [
    [1, 3, 4, 5],
    [3, 4, 5],
  ])
  isFree = true
  t.deepEqual<unknown, unknown>(await Promise.all(waiting), [stored, answer])
  t.deepEqual(lane.groups.slice(2), [[1], [2]])
})

test('lane: a write with a key that waits for a lock is not tried until it is free', async t => {
  let looks = 0
  const lane = open(async items => items.map(() => (looks === 0 ? 'locked' : stored)), {
    held: async items => new Set(++looks < 4 ? items : []),
  })
  t.deepEqual(await lane.writeOnce(write(1, 'a'), receipt('k')), answer)
  t.is(looks, 4)
  t.deepEqual(lane.groups, [[1], [1]])
})

test('lane: the writes of a transaction have at most 200 keys', async t => {
  const lane = open(storeAll)
  const keysOf = (number: number) => Array.from({ length: 50 }, (_, at) => `${number} ${at}`)
  await Promise.all([1, 2, 3, 4, 5].map(number => lane.write(write(number, ...keysOf(number)))))
  t.deepEqual(lane.groups, [[1, 2, 3, 4], [5]])
})

test('lane: a write that needs a lock for too long is rejected, and its keys are free then', async t => {
  const lane = open(async items => items.map(() => 'locked'), { timeoutMs: 30 })
  await t.throwsAsync(lane.write(write(1, 'held')), { code: 'ER_LOCK_NOWAIT' })
  await t.throwsAsync(lane.writeOnce(write(2, 'held'), receipt('k')), { code: 'ER_LOCK_NOWAIT' })
  t.is(lane.keysInUse(), 0)
})

test('lane: a slow try delays no later write for long', async t => {
  const tries = new Map<number, number>()
  const slow = async (items: readonly Write[]): Promise<readonly (Result | 'locked')[]> => {
    const [number = 0] = items.map(item => item.number)
    const count = (tries.get(number) ?? 0) + 1
    tries.set(number, count)
    if (count === 1) return ['locked']
    if (number === 1) await delay(600)
    return [stored]
  }
  const lane = open(slow, { timeoutMs: 2000 })
  t.is(await lane.write(write(1, 'a')), stored)
  t.is(await lane.write(write(2, 'b')), stored)
})

test('lane: a group that conflicts is repeated in halves, and other errors reject all of it', async t => {
  const lane = open(async items => {
    if (items.some(({ number }) => number === 3))
      throw items.length > 1 ? conflict() : new RangeError('alone')
    return items.map(() => stored)
  })
  const results = await Promise.allSettled(
    [1, 2, 3, 4, 5].map(number => lane.write(write(number, `${number}`))),
  )
  t.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  )
  t.deepEqual(lane.groups, [[1, 2, 3, 4, 5], [1, 2, 3], [1, 2], [3], [4, 5]])
})

test('lane: writes with and without an Idempotency-Key share a transaction', async t => {
  const lane = open(storeAll)
  const all = [
    lane.write(write(1, 'a')),
    lane.writeOnce(write(2, 'b'), receipt('k')),
    lane.writeOnce(write(3, 'c'), receipt('l')),
  ]
  t.deepEqual<unknown, unknown>(await Promise.all(all), [stored, answer, answer])
  t.deepEqual(lane.groups, [[1, 2, 3]])
})

test('lane: a write with an Idempotency-Key shares no transaction with another write of its keys', async t => {
  const lane = open(storeAll)
  await Promise.all([
    lane.write(write(1, 'a')),
    lane.writeOnce(write(2, 'a'), receipt('k')),
    lane.write(write(3, 'a')),
  ])
  t.deepEqual(lane.groups, [[1], [2], [3]])
})

/** Writes a group of three. The second one is refused, and the others are stored. */
async function expectOneRefused(t: ExecutionContext, lane: ReturnType<typeof open>, refusal: ApiError) {
  const results = await Promise.allSettled([
    lane.write(write(1, 'a')),
    lane.writeOnce(write(2, 'b'), receipt('k', refusal)),
    lane.writeOnce(write(3, 'c'), receipt('l')),
  ])
  t.deepEqual<unknown, unknown>(results, [
    { status: 'fulfilled', value: stored },
    { status: 'rejected', reason: refusal },
    { status: 'fulfilled', value: answer },
  ])
  t.is(lane.keysInUse(), 0)
}

test('lane: an error of a write that has changed nothing does not undo the others of its group', async t => {
  const lane = open(async items => items.map(({ number }) => (number === 2 ? 'precondition_failed' : stored)))
  await expectOneRefused(t, lane, new ApiError('precondition_failed', 'refused'))
  t.deepEqual(lane.groups, [[1, 2, 3]])
})

test('lane: a response that is refused leaves the other writes of its group stored', async t => {
  const lane = open(storeAll)
  await expectOneRefused(t, lane, new ApiError('limit_exceeded', 'refused'))
  t.deepEqual(lane.groups, [[1, 2, 3], [1, 2], [1], [2], [3]])
})

test('lane: a group whose outcome is unknown is not repeated', async t => {
  const unknown = unavailable(new Error('the answer to COMMIT is lost'))
  const attempt: Options['attempt'] = async act => {
    await act(transaction())
    throw unknown
  }
  const { writeOnce, groups } = open(storeAll, { attempt })
  const all = [1, 2].map(number => writeOnce(write(number, `${number}`), receipt(`k${number}`)))
  t.deepEqual<unknown, unknown>(await Promise.allSettled(all), [
    { status: 'rejected', reason: unknown },
    { status: 'rejected', reason: unknown },
  ])
  t.deepEqual(groups, [[1, 2]])
})

test('lane: a write with a key that meets a lock waits alone, and the others of its group do not', async t => {
  let held = true
  const lane = open(async items => items.map(({ number }) => (held && number === 2 ? 'locked' : stored)))
  const waiting = lane.writeOnce(write(2, 'b'), receipt('k'))
  const others = [lane.write(write(1, 'a')), lane.writeOnce(write(3, 'c'), receipt('l'))]
  t.deepEqual<unknown, unknown>(await Promise.all(others), [stored, answer])
  held = false
  t.deepEqual(await waiting, answer)
  t.is(lane.keysInUse(), 0)
})

test('lane: writes with keys that have waited for a lock share a transaction again', async t => {
  let held = true
  const lane = open(async items => {
    const result = held ? 'locked' : stored
    held = false
    return items.map(() => result)
  })
  const all = [1, 2, 3].map(number => lane.writeOnce(write(number, `${number}`), receipt(`k${number}`)))
  t.deepEqual<unknown, unknown>(await Promise.all(all), [answer, answer, answer])
  t.deepEqual(lane.groups, [
    [1, 2, 3],
    [1, 2, 3],
  ])
})

test('lane: a write with a key that is set aside waits for its lock in the database, too', async t => {
  let held = true
  const awaited: number[] = []
  const awaitLock: Options['awaitLock'] = async (_, { number }) => {
    awaited.push(number)
    held = false
  }
  const { writeOnce } = open(async items => items.map(() => (held ? 'locked' : stored)), {
    awaitLock,
    maxWaiting: 0,
  })
  t.deepEqual(await writeOnce(write(1, 'a'), receipt('k')), answer)
  t.deepEqual(awaited, [1])
})

test('lane: a write with a key that has waited for a lock leaves its place to the next one', async t => {
  const tries = new Map<number, number>()
  const awaited: number[] = []
  // Only a write that has no place is set aside, and then waits for its lock in the database.
  const awaitLock: Options['awaitLock'] = async (_, { number }) => void awaited.push(number)
  const { writeOnce } = open(
    async items =>
      items.map(({ number }) => {
        const count = (tries.get(number) ?? 0) + 1
        tries.set(number, count)
        return count < 3 ? 'locked' : stored
      }),
    { awaitLock },
  )
  for (const number of [1, 2]) t.deepEqual(await writeOnce(write(number, 'a'), receipt('k')), answer)
  t.deepEqual(awaited, [])
})

test('lane: writes with a transaction of their own do not hold up the others', async t => {
  const gate = createGate()
  const isLarge = ({ keys }: Write) => keys.length > 200
  const lane = open(async items => {
    if (items.some(isLarge)) await gate.opened
    return items.map(() => stored)
  })
  const large = [1, 2, 3].map(number => lane.write(write(number, ...manyKeys(number))))
  t.is(await lane.write(write(4, 'a')), stored)
  gate.open()
  await Promise.all(large)
  t.deepEqual(lane.groups, [[1], [2], [3], [4]])
})

test('lane: a write with a transaction of its own that cannot begin in time is rejected, and its keys are free', async t => {
  const gate = createGate()
  const lane = open(
    async items => {
      if (items.some(({ number }) => number === 1)) await gate.opened
      return items.map(() => stored)
    },
    { inSingleSlot: createSemaphore(1, 10) },
  )
  const first = lane.write(write(1, ...manyKeys(1)))
  await t.throwsAsync(lane.write(write(2, 'a', ...manyKeys(2))), {
    any: true,
    code: 'unavailable',
  })
  t.is(await lane.write(write(3, 'a')), stored)
  gate.open()
  t.is(await first, stored)
  t.is(lane.keysInUse(), 0)
})

test('lane: a write that waits for a transaction of its own holds up no other write of its keys', async t => {
  const gate = createGate()
  const isLarge = ({ keys }: Write) => keys.length > 200
  const lane = open(
    async items => {
      if (items.some(isLarge)) await gate.opened
      return items.map(() => stored)
    },
    { inSingleSlot: createSemaphore(1, 10_000) },
  )
  const large = [1, 2, 3].map(number => lane.write(write(number, ...manyKeys(number))))
  t.is(await lane.write(write(4, '2 0', '3 0')), stored)
  gate.open()
  await Promise.all(large)
  t.deepEqual(lane.groups, [[1], [4], [2], [3]])
})

/** Opens a lane with one slot for large writes. Its writes 1 and 3 last until their gates open, and 1, of the key `a`, has begun. */
async function openBusy(slotTimeoutMs: number) {
  const gates = [createGate(), createGate()] as const
  const lane = open(
    async ([first]) => {
      if (first?.number === 1) await gates[0].opened
      if (first?.number === 3) await gates[1].opened
      return [stored]
    },
    { inSingleSlot: createSemaphore(1, slotTimeoutMs) },
  )
  const small = lane.write(write(1, 'a'))
  await nextTurn()
  return { lane, gates, small }
}

test('lane: a large write that has waited for another write of its keys gets the next slot', async t => {
  const { lane, gates, small } = await openBusy(10_000)
  const large = [lane.write(write(2, 'a', ...manyKeys(2)))]
  await nextTurn()
  for (const number of [3, 4]) large.push(lane.write(write(number, ...manyKeys(number))))
  gates[0].open()
  t.is(await small, stored)
  await nextTurn()
  gates[1].open()
  await Promise.all(large)
  t.deepEqual(lane.groups, [[1], [3], [2], [4]])
})

test('lane: a large write that gets no slot in time after another write of its keys leaves its keys free', async t => {
  const { lane, gates, small } = await openBusy(10)
  const late = t.throwsAsync(lane.write(write(2, 'a', ...manyKeys(2))), { any: true, code: 'unavailable' })
  await nextTurn()
  const large = lane.write(write(3, ...manyKeys(3)))
  gates[0].open()
  t.is(await small, stored)
  await late
  t.is(await lane.write(write(4, 'a')), stored)
  gates[1].open()
  t.is(await large, stored)
  t.is(lane.keysInUse(), 0)
})

test('lane: a writer that does not record what it has changed is an error', async t => {
  const lane = createLane({
    attempt: act => act(transaction()),
    inSingleSlot: operation => operation(),
    maxWaiting: 1,
    timeoutMs: 1000,
  })
  const forgetful = lane.createWriter<Write>({
    keysOf: ({ keys }) => keys,
    apply: async (_, items) => items.map(() => stored),
  })
  await t.throwsAsync(forgetful.write(write(1, 'a')), {
    message: /changed 1 records, but recorded 0 changes/,
  })
  await t.throwsAsync(forgetful.writeOnce(write(1, 'a'), receipt('k')), { message: /recorded 0 changes/ })
  t.is(lane.keysInUse(), 0)
})

test('lane: no key is in two transactions at once, and the small writes of a key keep their order', async t => {
  const key = fc.constantFrom('a', 'b', 'c', 'd')
  const one = fc.record({
    keys: fc.uniqueArray(key, { maxLength: 3 }),
    turns: fc.nat(3),
    tries: fc.nat(2),
    keyed: fc.boolean(),
    large: fc.nat(4).map(number => number === 0),
  })
  const property = fc.asyncProperty(fc.array(one, { maxLength: 30 }), async plan => {
    const busy = new Set<string>()
    const tries = plan.map(({ tries }) => tries)
    const order: number[] = []
    const apply = async (items: readonly Write[]) => {
      const keys = new Set(items.flatMap(({ keys }) => keys))
      for (const key of keys) t.false(busy.has(key))
      for (const key of keys) busy.add(key)
      for (let turn = 0; turn < Math.max(...items.map(({ number }) => plan[number]?.turns ?? 0)); turn++)
        await nextTurn()
      for (const key of keys) busy.delete(key)
      // A write that is locked holds back those behind it, also in its own group.
      const waiting = new Set<string>()
      return items.map(({ number, keys }) => {
        const left = tries[number] ?? 0
        if (left > 0 || keys.some(key => waiting.has(key))) {
          tries[number] = Math.max(0, left - 1)
          for (const key of keys) waiting.add(key)
          return 'locked'
        }
        order.push(number)
        return stored
      })
    }
    const lane = open(apply, { inSingleSlot: createSemaphore(1 + (plan.length % 2), 10_000) })
    await Promise.all(
      plan.map(({ keys, keyed, large }, number) => {
        const one = write(number, ...keys, ...(large ? manyKeys(number) : []))
        return keyed ? lane.writeOnce(one, receipt(`${number}`)) : lane.write(one)
      }),
    )
    t.is(order.length, plan.length)
    t.is(lane.keysInUse(), 0)
    for (const key of ['a', 'b', 'c', 'd'] as const) {
      const numbers = order.filter(number => !plan[number]?.large && plan[number]?.keys.includes(key))
      t.deepEqual(
        numbers,
        numbers.toSorted((one, other) => one - other),
      )
    }
  })
  await fc.assert(property, { numRuns: 40 })
})
