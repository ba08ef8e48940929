// Applies a load over TLS in which each request opens a connection that resumes a session. wrk does not resume sessions, so
// each of the concurrent clients is a process of `openssl s_time` (https://docs.openssl.org/3.0/man1/openssl-s_time/).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { generate } from 'selfsigned'
import type { Figures, Load } from './wrk.ts'

/** Longer than any run: the clients are stopped. */
const MAX_SECONDS = 3600

/** Generates a certificate of the kind that `npm start` uses. @returns its file, which also holds the key */
export async function writeCertificate(folder: string): Promise<string> {
  const file = join(folder, 'certificate.pem')
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
  })
  await writeFile(file, `${key}\n${cert}\n`)
  return file
}

/**
 * Runs `connections` clients. Each of them requests one random user again and again. The status of the responses is not
 * checked, because s_time does not read it.
 * @throws Error if a connection fails, or if it does not resume a session
 */
export async function runTlsConnections(load: Load, signal: AbortSignal): Promise<Figures> {
  const { url, request, users, connections, seconds } = load
  const failed = new AbortController()
  const ended = AbortSignal.any([signal, failed.signal])
  const fail = (reason: string) => failed.abort(new Error(`${request.path} at ${url}: ${reason}`))
  const latencies = createHistogram()
  let isMeasuring = false

  function startClient() {
    const path = request.path.replace('{id}', () => String(1 + Math.floor(Math.random() * users)))
    const { host } = new URL(url)
    const child = spawn(
      'openssl',
      ['s_time', '-connect', host, '-reuse', '-www', path, '-time', String(MAX_SECONDS)],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    )
    let lastMs = performance.now()
    child.stdout.setEncoding('latin1').on('data', (text: string) => {
      // Some lines of text, then a character for each connection after the first: `r` if it resumed the session.
      const outcomes = text.slice(text.lastIndexOf('\n') + 1)
      if (!/^r*$/.test(outcomes)) fail(`a connection did not resume its session: ${outcomes}`)
      const nowMs = performance.now()
      const meanUs = Math.max(1, Math.round(((nowMs - lastMs) * 1000) / outcomes.length))
      lastMs = nowMs
      if (isMeasuring) for (const _ of outcomes) latencies.record(meanUs)
    })
    child.on('error', error => fail(`openssl cannot be run: ${error.message}`))
    child.on('exit', () => fail('a connection failed'))
    return child
  }

  const clients = Array.from({ length: connections }, startClient)
  try {
    await Promise.all(clients.map(client => once(client.stdout, 'data', { signal: ended })))
    isMeasuring = true
    const startMs = performance.now()
    await delay(seconds * 1000, undefined, { signal: ended })
    isMeasuring = false
    return {
      requestsPerSecond: (latencies.count * 1000) / (performance.now() - startMs),
      p50Ms: latencies.percentile(50) / 1000,
      p99Ms: latencies.percentile(99) / 1000,
    }
  } catch (error) {
    throw failed.signal.aborted ? failed.signal.reason : error
  } finally {
    for (const client of clients) client.removeAllListeners('exit').kill()
  }
}
