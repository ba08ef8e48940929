// A load that writes through a proxy, or through several nodes at once, and reads each write through all nodes right after: rows
// that all clients change, memberships, requests with an Idempotency-Key, and races for one name.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import type { Attempts } from '../faults/attempts.ts'
import { readBack } from '../faults/read-back.ts'
import { type Answer, type Client, createClient } from '../support/http.ts'
import { pick } from '../support/pick.ts'

interface CrossNodeOptions {
  /** The proxy before the nodes. */
  readonly url: string
  /** The nodes themselves. */
  readonly nodeUrls: readonly string[]
  readonly clients: number
  /** Counts the responses of the proxy. */
  readonly attempts: Attempts
}

/** A write of a row that all clients change. */
interface HotWrite {
  readonly began: number
  /** Infinity if the write was not acknowledged: it may take effect at any time. */
  ended: number
}

/** What one client knows. */
interface Own {
  readonly api: Client
  readonly user: number
  /** Undefined after a change of the membership that was not acknowledged. */
  isMember: boolean | undefined
}

const HOT_ROWS = 3
const RETRY_MS = 50
const BATCH_SIZE = 500
const BATCH_PAUSE_MS = 100

let names = 0
const newName = () => `crossed ${process.pid} ${++names}`

/** Starts the clients. All clients stop at the first violation, which `stop` then throws. */
export async function startCrossNodeLoad({ url, nodeUrls, clients, attempts }: CrossNodeOptions) {
  const { attempt } = attempts
  const nodes = nodeUrls.map(url => createClient(url))
  const setup = createClient(url)
  const group = await setup.create('/v1/groups', { name: newName() })
  const hot = new Map<number, Map<string, HotWrite>>()
  const counts = { crossReads: 0, keys: 0, replayed: 0, races: 0 }
  let tick = 1
  let stopped = false
  for (let row = 0; row < HOT_ROWS; row++)
    hot.set(
      await setup.create('/v1/users', { first_name: newName(), last_name: '0' }),
      new Map([['0', { began: 0, ended: 0 }]]),
    )

  /** Reads through all nodes at once, and calls `check` with each response. Nodes that cannot serve now are skipped. */
  async function readEverywhere(path: string, check: (answer: Answer) => void): Promise<void> {
    const answers = await Promise.all(nodes.map(node => node.get(path).catch(() => undefined)))
    for (const answer of answers) {
      if (answer === undefined || answer.status === 503) continue
      counts.crossReads++
      check(answer)
    }
  }

  /** @throws AssertionError if a write of the row that began after the one of `value` had ended, ended before `began` */
  function assertNotOverwritten(row: number, value: string, began: number): void {
    const writes = hot.get(row)
    const write = writes?.get(value)
    assert.ok(write !== undefined, `user ${row} has ${value}, which was never written`)
    for (const [newer, other] of writes ?? [])
      assert.ok(
        other.began <= write.ended || other.ended >= began,
        `stale: user ${row} has ${value} after ${newer} was acknowledged`,
      )
  }

  /** Repeats a request with an Idempotency-Key through all nodes at once, until the proxy has acknowledged it. */
  async function postWithKey({ api }: Own): Promise<void> {
    const body = { first_name: 'Keyed', last_name: newName() }
    const headers = { 'idempotency-key': body.last_name.replaceAll(' ', '-') }
    const send = (client: Client) => client.post('/v1/users', body, headers)
    const ids = new Set<number | undefined>()
    counts.keys++
    const record = (answer: Answer | undefined) => {
      if (answer === undefined || answer.status === 503 || answer.body.meta.code === 'request_in_progress')
        return
      assert.equal(answer.status, 200, answer.text)
      ids.add(answer.body.id)
      if (answer.headers['idempotent-replayed'] === 'true') counts.replayed++
    }
    for (const answer of await Promise.all(nodes.map(node => send(node).catch(() => undefined))))
      record(answer)
    for (let answer: Answer | undefined; answer?.status !== 200 && !stopped; ) {
      answer = await attempt(() => send(api), [409])
      record(answer)
      // As a client that repeats its request.
      if (answer?.status !== 200) await delay(RETRY_MS)
    }
    assert.ok(ids.size <= 1, `the key ${headers['idempotency-key']} created ${[...ids]}`)
    const [id] = ids
    if (id === undefined) return
    await readEverywhere(`/v1/users/${id}`, read =>
      assert.equal(read.body.last_name, body.last_name, `stale: user ${id} is missing`),
    )
  }

  /** Creates the same user through all nodes at once. */
  async function race(): Promise<void> {
    const body = { first_name: 'Raced', last_name: newName() }
    const answers = await Promise.all(nodes.map(node => node.post('/v1/users', body).catch(() => undefined)))
    const created = answers.filter(answer => answer?.status === 200)
    assert.ok(created.length <= 1, `${body.last_name} was created ${created.length} times`)
    for (const answer of answers) assert.match(String(answer?.status ?? 503), /^(200|409|503)$/, answer?.text)
    counts.races++
  }

  const operations = [
    async function changeHotRow({ api }: Own) {
      const row = pick([...hot.keys()])
      const value = newName()
      const write: HotWrite = { began: tick++, ended: Number.POSITIVE_INFINITY }
      hot.get(row)?.set(value, write)
      const answer = await attempt(() => api.patch(`/v1/users/${row}`, { last_name: value }))
      if (answer === undefined) return
      write.ended = tick++
      const began = tick++
      await readEverywhere(`/v1/users/${row}`, read =>
        assertNotOverwritten(row, read.body.last_name ?? '', began),
      )
    },
    async function changeMembership(own: Own) {
      const path = `/v1/users/${own.user}/groups`
      const joins = own.isMember !== true
      own.isMember = undefined
      const answer = await attempt(
        () => (joins ? own.api.post(path, { id: group }) : own.api.delete(`${path}/${group}`)),
        // A change that was not acknowledged may have been made.
        [404],
      )
      if (answer === undefined) return
      own.isMember = joins
      await readEverywhere(`/v1/users/${own.user}?include=groups`, read =>
        assert.equal(read.body.groups?.length, joins ? 1 : 0, `stale: ${read.text}`),
      )
    },
    async function create({ api }: Own) {
      const last_name = newName()
      const answer = await attempt(() => api.post('/v1/users', { first_name: 'Made', last_name }))
      if (answer === undefined) return
      const path = `/v1/users/${answer.body.id}`
      await readEverywhere(path, read => assert.equal(read.body.last_name, last_name, `stale: ${read.text}`))
      if (!(await attempt(() => api.delete(path), [404]))) return
      await readEverywhere(path, again => assert.equal(again.status, 404, `stale: ${again.text}`))
    },
    postWithKey,
    race,
  ]

  /**
   * Creates large batches, which the other databases take long to apply: if their sessions did not wait for that, their reads
   * would be stale.
   */
  async function createBatches(): Promise<void> {
    const api = createClient(url)
    while (!stopped) {
      const users = Array.from({ length: BATCH_SIZE }, () => ({ first_name: 'Many', last_name: newName() }))
      await attempt(() => api.post('/v1/users', { users }))
      // A part of the load.
      await delay(BATCH_PAUSE_MS)
    }
    api.close()
  }

  async function run(own: Own): Promise<void> {
    while (!stopped) await pick(operations)(own)
  }

  const owns: Own[] = []
  for (let client = 0; client < clients; client++) {
    const user = await setup.create('/v1/users', { first_name: newName(), last_name: 'member' })
    owns.push({ api: createClient(url), user, isMember: false })
  }
  const running = [...owns.map(run), createBatches()].map(one =>
    one.finally(() => {
      stopped = true
      attempts.end()
    }),
  )
  // `stop` throws the failure; this handler prevents an unhandled rejection before that.
  for (const one of running) one.catch(() => {})

  return {
    counts,
    /** Stops the clients. @throws Error of the first violation */
    async stop(): Promise<void> {
      stopped = true
      await Promise.all(running)
      for (const { api } of owns) api.close()
    },
    /** Reads the rows that all clients change, and the memberships. @throws AssertionError if a write is missing */
    async verify(): Promise<void> {
      for (const node of nodes) {
        for (const row of hot.keys()) {
          const { body } = await readBack(node, `/v1/users/${row}`)
          assertNotOverwritten(row, body.last_name ?? '', tick)
        }
        for (const { user, isMember } of owns) {
          const { body } = await readBack(node, `/v1/users/${user}?include=groups`)
          if (isMember !== undefined) assert.equal(body.groups?.length, isMember ? 1 : 0)
        }
      }
      setup.close()
      for (const node of nodes) node.close()
    },
  }
}
