// A worker killed at any message between it and the database, in the middle of a batch: afterwards all of the batch is
// there or nothing, and who repeats the request with its Idempotency-Key gets it done once.
import type { Socket } from 'node:net'
import test from 'ava'
import { throughProxy } from '../faults/database-url.ts'
import { type Answer, createClient } from '../support/http.ts'
import { createOperator } from '../support/operator.ts'
import { createDatabase, startService } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'

interface Scene {
  /** What only the transaction in question says. */
  readonly mark: string
  /** Which of its messages, to or from the database, is the worker's last, and does not arrive. */
  readonly last: number
  readonly worker: number
  connection?: Socket
  messages: number
  /** Whether the database has been asked to commit it. */
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

/** Resolves when a worker is ready that is not this one. */
const successor = (worker: number) =>
  operator.until(({ workers }) => workers.some(({ pid, state }) => state === 'ready' && pid !== worker))

/** Posts a batch; @returns what became of the request, and what is stored of it. */
async function play(last: number, key?: string) {
  const [worker = 0] = await service.workers()
  const last_name = `Crash ${crypto.randomUUID()}`
  const users = ['before', 'between', 'after'].map(first_name => ({ first_name, last_name }))
  const headers = key === undefined ? {} : { 'idempotency-key': key }
  const send = (): Promise<Answer | undefined> =>
    api.post('/v1/users', { users }, headers).catch(() => undefined)
  const played: Scene = { mark: key ?? last_name, last, worker, messages: 0, committed: false }
  scene = played
  const answer = await send()
  scene = undefined
  if (answer === undefined) await successor(worker)
  const count = () => api.count(`/v1/users?last_name=${encodeURIComponent(last_name)}`)
  return { answer, committed: played.committed, stored: await count(), send, count }
}

test.serial('with a key: all or nothing, and done once in the end', async t => {
  const seen = { before: 0, after: 0 }
  for (let last = 0; ; last++) {
    const { answer, committed, stored, send, count } = await play(last, crypto.randomUUID())
    t.is(stored, committed ? 3 : 0, `after message ${last}`)
    if (answer !== undefined) break
    seen[committed ? 'after' : 'before']++
    let again = await send()
    // Until the database has seen that the connection is gone.
    while (again?.body.meta.code === 'request_in_progress') again = await send()
    t.like(again?.body.meta, { status: 200, created: 3, failed: 0 })
    t.is(again?.headers['idempotent-replayed'], committed ? 'true' : undefined)
    t.is(await count(), 3)
  }
  t.log(`killed ${seen.before} times before the commit, ${seen.after} times after it`)
  t.true(seen.before > 5 && seen.after > 0)
})

test.serial('without a key: all or nothing', async t => {
  const outcomes = new Set<number>()
  for (let last = 0; ; last++) {
    const { answer, committed, stored } = await play(last)
    t.is(stored, committed ? 3 : 0, `after message ${last}`)
    if (answer !== undefined) break
    outcomes.add(stored)
  }
  t.deepEqual([...outcomes], [0, 3])
})
