// Runs wrk (https://github.com/wg/wrk) once against one server and parses its result.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import * as z from 'zod'
import type { Request } from './comparisons.ts'

const run = promisify(execFile)
const script = fileURLToPath(new URL('./request.lua', import.meta.url))

export interface Load {
  readonly url: string
  readonly request: Request
  readonly headers?: Readonly<Record<string, string>>
  /** Random ids are chosen from 1 to this number. */
  readonly users: number
  readonly connections: number
  readonly seconds: number
  /** Whether each request opens a new connection. */
  readonly closing: boolean
}

export interface Figures {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

const report = z.object({
  requests: z.number(),
  durationUs: z.number(),
  p50Us: z.number(),
  p99Us: z.number(),
  failed: z.record(z.string(), z.number()),
})

/** @throws Error that says how to install wrk if it is missing */
export async function assertWrk(): Promise<void> {
  await run('wrk', ['--version']).catch(error => {
    // `wrk --version` exits with 1 even if wrk is installed.
    if (error.code === 'ENOENT')
      throw new Error('wrk not found: install it (sudo apt-get install wrk, or brew install wrk)')
  })
}

/**
 * Runs wrk with `load`.
 * @throws Error if any request failed, because the figures would include failures
 */
export async function runWrk(load: Load, signal: AbortSignal): Promise<Figures> {
  const { url, request, headers = {}, users, connections, seconds, closing } = load
  const { stdout } = await run(
    'wrk',
    [
      ...['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`],
      ...['--timeout', '30s', '--script', script],
      ...Object.entries(headers).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
      ...[url, '--'],
      // The time makes the unique texts of each run different.
      ...[request.method, request.path, request.body ?? '', String(users), String(Date.now())],
      closing ? 'close' : 'keep-alive',
      request.keyed === true ? 'keyed' : 'plain',
    ],
    { signal },
  )
  const line = stdout.split('\n').find(one => one.startsWith('{'))
  const { requests, durationUs, p50Us, p99Us, failed } = report.parse(JSON.parse(line ?? 'null'))
  const failures = Object.entries(failed).filter(([, count]) => count > 0)
  const what = `${request.method} ${request.path} at ${url}`
  if (failures.length > 0)
    throw new Error(
      `${what}: failures in ${requests} requests: ${failures.map(([kind, count]) => `${kind} ${count}`).join(', ')}`,
    )
  if (requests === 0) throw new Error(`${what}: no response within ${seconds} s`)
  return { requestsPerSecond: (requests * 1e6) / durationUs, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000 }
}
