// The remarks that `npm start` prints about a running service: an open API, tokens that travel unencrypted, ports in
// maintenance and an unreachable Redis.
import { setTimeout as delay } from 'node:timers/promises'
import { isAuthOn } from '../config/auth.ts'
import type { Config } from '../config/config.ts'
import { isLoopback } from '../core/known-hosts.ts'
import { readStatus } from './operator/client.ts'

const PAUSE_MS = 200
/** How long the service may take to find out whether Redis can be reached. */
const REDIS_TIMEOUT_MS = 5000

/** @returns the remarks about the callers of the API, one line each */
export function authRemarks({ auth, host, ports, production }: Config): string[] {
  if (!isAuthOn(auth))
    return production
      ? [
          'the API is open: every client that reaches a data port can read and change everything; `npm run key` makes a key',
        ]
      : []
  const labels = ports.filter(({ protocol }) => protocol === 'http').map(({ label }) => label)
  if (labels.length === 0 || isLoopback(host)) return []
  return [
    `tokens travel unencrypted to the port ${labels.join(', ')}: let clients use HTTPS, and bind this port to a loopback address behind a proxy, or remove it`,
  ]
}

/** @returns the remarks, one line each; those about the state of the service only if it replies */
export async function startRemarks(config: Config): Promise<string[]> {
  const deadlineMs = performance.now() + REDIS_TIMEOUT_MS
  const read = () => readStatus(config.control.socket, 'npm start')
  let status = await read()
  while (status?.redis === 'connecting' && performance.now() < deadlineMs) {
    await delay(PAUSE_MS)
    status = await read()
  }
  const remarks = authRemarks(config)
  for (const [label, { state }] of Object.entries(status?.ports ?? {}))
    if (state !== 'serving') remarks.push(`${label} is still in maintenance: npm run ops -- resume ${label}`)
  if (status?.redis === 'away')
    remarks.push(
      'Redis cannot be reached, so every read queries the database: start it, or correct REDIS_URL',
    )
  return remarks
}
