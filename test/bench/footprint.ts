// Measures the service with two workers: the time from start to the first response, and memory and event loop delay
// under load.
import { setTimeout as delay } from 'node:timers/promises'
import type { Request } from './comparisons.ts'
import { median } from './interleaved.ts'
import { type RunningServer, startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, markdownTable } from './table.ts'
import { runWrk } from './wrk.ts'

const USERS = 1000
const STARTS = 5

const mix: readonly (Request & { readonly connections: number })[] = [
  { method: 'GET', path: '/v1/users/{id}?include=groups', connections: 32 },
  { method: 'GET', path: '/v1/users?records_per_page=100&include=groups', connections: 16 },
  {
    method: 'POST',
    path: '/v1/users',
    body: '{"first_name":"{unique}","last_name":"Bench"}',
    connections: 16,
  },
]

interface Sample {
  readonly supervisorMiB: number
  /** Memory of the largest worker. */
  readonly workerMiB: number
  /** Event loop delay of the slowest worker. */
  readonly lagP99Ms: number
}

/** Returns all values of a metric in a Prometheus text. */
function valuesOf(metrics: string, name: string): number[] {
  return metrics
    .split('\n')
    .filter(line => new RegExp(`^${name}[{ ]`).test(line))
    .map(line => Number(line.split(' ').at(-1)))
}

async function sample({ url }: RunningServer): Promise<Sample> {
  const control = new URL('/metrics', url)
  control.port = String(Number(control.port) + 1)
  const metrics = await (await fetch(control)).text()
  const max = (name: string) => Math.max(...valuesOf(metrics, name))
  return {
    supervisorMiB: max('process_resident_memory_bytes') / 2 ** 20,
    workerMiB: max('users_api_worker_resident_memory_bytes') / 2 ** 20,
    lagP99Ms: max('users_api_worker_eventloop_lag_p99_seconds') * 1000,
  }
}

/** Applies the request mix for `seconds` and takes a sample every second. */
async function load(server: RunningServer, seconds: number, signal: AbortSignal): Promise<Sample[]> {
  const running = Promise.all(
    mix.map(({ connections, ...request }) =>
      runWrk({ url: server.url, users: USERS, request, connections, seconds, closing: false }, signal),
    ),
  )
  const samples: Sample[] = []
  for (let second = 1; second < seconds; second++) {
    await delay(1000, undefined, { signal })
    samples.push(await sample(server))
  }
  await running
  return samples
}

/** @param seconds length of the load. @returns the table as Markdown */
export async function measureFootprint(
  { createPopulated, redisUrl, folder }: Stores,
  seconds: number,
  signal: AbortSignal,
): Promise<string> {
  const databaseUrl = await createPopulated(USERS)
  const startsMs: number[] = []
  const start = async () => {
    const startedMs = performance.now()
    const server = await startServer('service', { databaseUrl, redisUrl, folder, workers: 2 })
    startsMs.push(performance.now() - startedMs)
    return server
  }
  for (let run = 1; run < STARTS; run++) await (await start()).stop()
  return withServers([start], async ([server]) => {
    if (server === undefined) throw new Error('the service was not started')
    const samples = await load(server, seconds, signal)
    const mebibytes = (of: (one: Sample) => number) =>
      [samples[Math.floor(samples.length / 2)], samples.at(-1)]
        .map(one => `${(one === undefined ? Number.NaN : of(one)).toFixed(0)} MiB`)
        .join(', ')
    return markdownTable([
      ['two workers', 'measured'],
      [`time from start to first response, median of ${STARTS}`, `${formatMs(median(startsMs))} ms`],
      [`supervisor memory after ${seconds / 2} s and ${seconds} s`, mebibytes(one => one.supervisorMiB)],
      [`larger worker's memory after ${seconds / 2} s and ${seconds} s`, mebibytes(one => one.workerMiB)],
      [
        'p99 of the event loop delay per second, median',
        `${formatMs(median(samples.map(one => one.lagP99Ms)))} ms`,
      ],
    ])
  })
}
