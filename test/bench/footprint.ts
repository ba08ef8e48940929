// What the service takes with two workers: the time to its first answer, and memory and event loop under load.
import { setTimeout as delay } from 'node:timers/promises'
import type { Request } from './comparisons.ts'
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
  /** Of the largest. */
  readonly workerMiB: number
  /** Of the slowest. */
  readonly lagP99Ms: number
}

/** All values of a metric, by what its control port says. */
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
  const most = (name: string) => Math.max(...valuesOf(metrics, name))
  return {
    supervisorMiB: most('process_resident_memory_bytes') / 2 ** 20,
    workerMiB: most('users_api_worker_resident_memory_bytes') / 2 ** 20,
    lagP99Ms: most('users_api_worker_eventloop_lag_p99_seconds') * 1000,
  }
}

/** Puts the mix on the service, and says each second how it is. */
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

const median = (values: readonly number[]): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN

/** @param seconds of load; gives the table as Markdown */
export async function measureFootprint(
  { createPopulated, redisUrl, folder }: Stores,
  seconds: number,
  signal: AbortSignal,
): Promise<string> {
  const databaseUrl = await createPopulated(USERS)
  const startsMs: number[] = []
  const start = async () => {
    const beganMs = performance.now()
    const server = await startServer('service', { databaseUrl, redisUrl, folder, workers: 2 })
    startsMs.push(performance.now() - beganMs)
    return server
  }
  for (let turn = 1; turn < STARTS; turn++) await (await start()).stop()
  return withServers([start], async ([server]) => {
    if (server === undefined) throw new Error('one service was to run')
    const samples = await load(server, seconds, signal)
    const mebibytes = (of: (one: Sample) => number) =>
      [samples[Math.floor(samples.length / 2)], samples.at(-1)]
        .map(one => `${(one === undefined ? Number.NaN : of(one)).toFixed(0)} MiB`)
        .join(', then ')
    return markdownTable([
      ['two workers', 'measured', 'aim'],
      [`from start to the first answer, median of ${STARTS}`, `${formatMs(median(startsMs))} ms`, '1500 ms'],
      [
        `memory of the supervisor after ${seconds / 2} and ${seconds} s`,
        mebibytes(one => one.supervisorMiB),
        '80 MB',
      ],
      ['memory of the larger worker, likewise', mebibytes(one => one.workerMiB), '200 MB'],
      [
        "p99 of the event loop's delay within a second, median of them",
        `${formatMs(median(samples.map(one => one.lagP99Ms)))} ms`,
        '',
      ],
    ])
  })
}
