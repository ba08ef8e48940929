// Measures the change feed: the time until a stream has an event, the cost of many streams, and pages of a long feed.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { createHistogram } from 'node:perf_hooks'
import { createConnection } from 'mysql2/promise'
import { createClient } from '../support/http.ts'
import { atSteadyInterval } from '../support/steady-interval.ts'
import { until } from '../support/until.ts'
import type { Request } from './comparisons.ts'
import { measureLatency } from './constant-rate.ts'
import { childOf, cpuUs } from './cpu.ts'
import { measureInterleaved, type Rounds } from './interleaved.ts'
import { type RunningServer, startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, formatRate, markdownTable } from './table.ts'
import { runWrk } from './wrk.ts'

const USERS = 1000
const CONNECTIONS = 64
const PROBE_EVERY_MS = 20
const READERS = 1000
const EVENTS_PER_SECOND = 100
const EVENTS = 10_000_000
const EVENTS_PER_ROW = 10
const ROWS_PER_INSERT = 100_000

const newUser: Request = {
  method: 'POST',
  path: '/v1/users',
  body: '{"first_name":"{unique}","last_name":"Bench"}',
}

/** Opens a stream of the events from now on. @param onText is called with each part of it @returns a function that closes it */
async function openStream({ url }: RunningServer, onText: (text: string) => void = () => {}) {
  const headers = { accept: 'text/event-stream' }
  const request = http.get(`${url}/v1/changes?after=latest`, { agent: false, headers })
  request.on('error', () => {})
  const [response]: [http.IncomingMessage] = await once(request, 'response').then(([first]) => [first])
  if (response.statusCode !== 200) throw new Error(`no stream: ${response.statusCode}`)
  response.setEncoding('utf8').on('data', onText)
  return () => request.destroy()
}

/** Notes when a stream has an event of each request. */
async function watchEvents(server: RunningServer) {
  const seenMs = new Map<string, number>()
  const close = await openStream(server, text => {
    for (const [, request = ''] of text.matchAll(/"request_id":"(probe-\d+)"/g))
      seenMs.set(request, performance.now())
  })
  return { seenMs, close }
}

/** Returns rows with the times from the response of a write to its event at streams of the same and of another node. */
async function measureEventLatency(
  stores: Stores,
  { count, seconds }: Rounds,
  signal: AbortSignal,
): Promise<string[][]> {
  const databaseUrl = await stores.createPopulated(USERS)
  const settings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers: 1 }
  const start = () => startServer('service', settings)
  return withServers([start, start], async ([same, other]) => {
    if (same === undefined || other === undefined) throw new Error('the service was not started')
    const load = { url: same.url, request: newUser, users: USERS, connections: CONNECTIONS, seconds }
    await runWrk({ ...load, closing: false }, signal)
    const { requestsPerSecond } = await runWrk({ ...load, closing: false }, signal)
    const perSecond = Math.floor(requestsPerSecond / 2)
    const streams = [await watchEvents(same), await watchEvents(other)]
    const client = createClient(same.url)
    const answeredMs = new Map<string, number>()
    const probe = async (number: number) => {
      const request = `probe-${number}`
      const body = { first_name: request, last_name: 'Probe' }
      const { status } = await client.post('/v1/users', body, { 'request-id': request })
      if (status === 200) answeredMs.set(request, performance.now())
    }
    const length = count * seconds
    let probes = 0
    const probing: Promise<void>[] = []
    await Promise.all([
      measureLatency({ ...load, perSecond, seconds: length }, signal),
      atSteadyInterval(PROBE_EVERY_MS, async () => {
        probing.push(probe(probes++))
        return probes >= (length * 1000) / PROBE_EVERY_MS
      }),
    ])
    await Promise.all(probing)
    await until(() => streams.every(({ seenMs }) => seenMs.size === answeredMs.size))
    client.close()
    return streams.map(({ seenMs, close }, index) => {
      close()
      const latencies = createHistogram()
      // An event can be there before the response of its write.
      for (const [request, ms] of answeredMs)
        latencies.record(Math.max(1, Math.round(1000 * ((seenMs.get(request) ?? Number.NaN) - ms))))
      const [p50, p99] = [latencies.percentile(50) / 1000, latencies.percentile(99) / 1000]
      const node = index === 0 ? 'the same node' : 'another node'
      return [
        `event at a stream of ${node}, ${formatRate(perSecond)} writes a second`,
        `p50 ${formatMs(p50)} ms, p99 ${formatMs(p99)} ms`,
      ]
    })
  })
}

const memoryMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

/** Returns rows with the CPU time and the memory of a worker with many streams. */
async function measureStreams(
  stores: Stores,
  { count, seconds }: Rounds,
  signal: AbortSignal,
): Promise<string[][]> {
  const databaseUrl = await stores.createPopulated(USERS)
  const settings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers: 1 }
  return withServers([() => startServer('service', settings)], async ([server]) => {
    if (server === undefined) throw new Error('the service was not started')
    const worker = childOf(server.pid())
    const length = count * seconds
    const load = { url: server.url, request: newUser, users: USERS, connections: 4 }
    /** Returns the share of one CPU that the worker uses under the load, in percent. */
    const cpuPercent = async () => {
      const beforeUs = cpuUs(worker)
      await measureLatency({ ...load, perSecond: EVENTS_PER_SECOND, seconds: length }, signal)
      return (cpuUs(worker) - beforeUs) / (length * 1e4)
    }
    await cpuPercent()
    const [withoutPercent, beforeMiB] = [await cpuPercent(), memoryMiB(worker)]
    let bytes = 0
    const closes: (() => void)[] = []
    for (let reader = 0; reader < READERS; reader++)
      closes.push(
        await openStream(server, text => {
          bytes += text.length
        }),
      )
    const [withPercent, afterMiB] = [await cpuPercent(), memoryMiB(worker)]
    for (const close of closes) close()
    const share = ((withPercent - withoutPercent) * 100) / READERS
    return [
      [`${READERS} streams: memory of the worker`, `${formatMs(beforeMiB)} → ${formatMs(afterMiB)} MiB`],
      [
        `${READERS} streams, ${EVENTS_PER_SECOND} events a second: CPU of the worker`,
        `${formatMs(withoutPercent)} % → ${formatMs(withPercent)} %, ${share.toFixed(2)} % for each 100 streams; ${formatRate(bytes / length / 1024)} KiB/s`,
      ],
    ]
  })
}

/** Fills the feed of an empty database. */
async function fillFeed(databaseUrl: string): Promise<void> {
  const connection = await createConnection(databaseUrl)
  const digits = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ')
  const numbers = `SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
    FROM ${['a', 'b', 'c', 'd', 'e'].map(name => `(${digits}) ${name}`).join(', ')}`
  const ids = Array.from({ length: EVENTS_PER_ROW }, (_, at) => `last_id - ${EVENTS_PER_ROW - at - 1}`).join()
  try {
    for (let first = 1; first <= EVENTS / EVENTS_PER_ROW; first += ROWS_PER_INSERT)
      await connection.query(
        `INSERT INTO changes (last_id, at, amount, events)
         SELECT last_id, UTC_TIMESTAMP(3), ${EVENTS_PER_ROW}, JSON_ARRAY(JSON_OBJECT('type', 'user.updated',
           'ids', JSON_OBJECT('user_id', JSON_ARRAY(${ids})), 'by', NULL, 'request_id', UUID()))
         FROM (SELECT ${EVENTS_PER_ROW} * (n + ${first}) AS last_id FROM (${numbers}) numbers ORDER BY n) numbered`,
      )
    await connection.query('UPDATE change_head SET last_id = ?', [EVENTS])
  } finally {
    await connection.end()
  }
}

/** Returns a row with the times of three pages. */
async function measurePages(stores: Stores, rounds: Rounds, signal: AbortSignal): Promise<string[][]> {
  const databaseUrl = await stores.createPopulated(USERS)
  await fillFeed(databaseUrl)
  const settings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers: 1 }
  return withServers([() => startServer('service', settings)], async ([server]) => {
    if (server === undefined) throw new Error('the service was not started')
    const { url } = server
    const loads = ['', `?after=${EVENTS / 2}`, `?after=${EVENTS - 100}`].map(query => ({
      url,
      request: { method: 'GET' as const, path: `/v1/changes${query}` },
      users: USERS,
      connections: 1,
      closing: false,
    }))
    const times = (await measureInterleaved(loads, rounds, signal)).map(({ p50Ms }) => formatMs(p50Ms))
    return [
      [
        `${formatRate(EVENTS)} events: the first, a middle and the last page of 100`,
        `${times.join(', ')} ms`,
      ],
    ]
  })
}

/** @returns the table as Markdown */
export async function measureFeed(stores: Stores, rounds: Rounds, signal: AbortSignal): Promise<string> {
  const rows: string[][] = []
  for (const measure of [measureEventLatency, measureStreams, measurePages]) {
    const found = await measure(stores, rounds, signal)
    for (const row of found) console.log(`  ${row.join(': ')}`)
    rows.push(...found)
    await stores.clear()
  }
  return markdownTable([['measured', 'result'], ...rows])
}
