// Kills a worker at each message between it and the database during a batch: afterwards either all rows of the batch exist
// or none, and repeating the request with its Idempotency-Key executes it once.
import type { Socket } from 'node:net'
import test from 'ava'
import { throughProxy } from '../faults/database-url.ts'
import { type Answer, createClient } from '../support/http.ts'
import { createOperator } from '../support/operator.ts'
import { createDatabase, startService } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

interface Scene {
  /** Text that occurs only in the transaction under test. */
  readonly mark: string
  /** Index of the message, to or from the database, that is dropped and at which the worker is killed. */
  readonly last: number
  readonly worker: number
  connection?: Socket
  messages: number
  /** Whether the COMMIT has been sent to the database. */
  committed: boolean
}

let scene: Scene | undefined
const database = await createDatabase()
const proxy = await openTcpProxy(database, (to, bytes, connection) => {
  if (scene === undefined) return true
  if (scene.connection === undefined && bytes.includes(scene.mark)) scene.connection = connection
  if (scene.connection !== connection) return true
  if (scene.messages++ === scene.last) {
    process.kill(scene.worker, 'SIGKILL')
    return false
  }
  if (to === 'server' && bytes.includes('COMMIT')) scene.committed = true
  return true
})
const service = await startService({ database: throughProxy(database, proxy.port) })
const operator = createOperator(service)
const api = createClient(service.url)
test.after.always(async t => {
  api.close()
  t.is(await service.stop(), 0)
  proxy.close()
})

/** Resolves when a worker other than `worker` is ready. */
const replacementReady = (worker: number) =>
  operator.until(({ workers }) => workers.some(({ pid, state }) => state === 'ready' && pid !== worker))

/** Posts a batch. Returns the response, undefined if the connection was lost, and the number of rows stored. */
async function runScene(last: number, key?: string) {
  const [worker = 0] = await service.workers()
  const last_name = `Crash ${crypto.randomUUID()}`
  const users = ['before', 'between', 'after'].map(first_name => ({ first_name, last_name }))
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  const send = (): Promise<Answer | undefined> =>
    api.post('/v1/users', { users }, headers).catch(() => undefined)
  const current: Scene = { mark: key ?? last_name, last, worker, messages: 0, committed: false }
  scene = current
  const answer = await send()
  scene = undefined
  if (answer === undefined) await replacementReady(worker)
  const count = () => api.count(`/v1/users?last_name=${encodeURIComponent(last_name)}`)
  return { answer, committed: current.committed, stored: await count(), send, count }
}

test.serial(
  'crash with an Idempotency-Key: all rows or none, and the repeated request is executed once',
  async t => {
    const seen = { before: 0, after: 0 }
    for (let last = 0; ; last++) {
      const { answer, committed, stored, send, count } = await runScene(last, crypto.randomUUID())
      t.is(stored, committed ? 3 : 0, `after message ${last}`)
      if (answer !== undefined) break
      seen[committed ? 'after' : 'before']++
      // The key stays locked until the database has noticed the lost connection.
      const again = await until(async () => {
        const one = await send()
        return one?.body.meta.code !== 'request_in_progress' && one
      })
      t.like(again?.body.meta, { status: 200, created: 3, failed: 0 })
      t.is(again?.headers['idempotent-replayed'], committed ? 'true' : undefined)
      t.is(await count(), 3)
    }
    t.log(`killed ${seen.before} times before the commit, ${seen.after} times after it`)
    t.true(seen.before > 5 && seen.after > 0)
  },
)

test.serial('crash without an Idempotency-Key: all rows or none', async t => {
  const outcomes = new Set<number>()
  for (let last = 0; ; last++) {
    const { answer, committed, stored } = await runScene(last)
    t.is(stored, committed ? 3 : 0, `after message ${last}`)
    if (answer !== undefined) break
    outcomes.add(stored)
  }
  t.deepEqual([...outcomes], [0, 3])
})
