// The remarks that `npm start` prints about a running service: an open API, tokens that travel unencrypted, ports in
// maintenance and an unreachable Redis.
import { setTimeout as delay } from 'node:timers/promises'
import { isAuthOn } from '../config/auth.ts'
import type { Config } from '../config/config.ts'
import type { CacheState } from '../core/messages.ts'
import { statusSchema } from '../supervisor/control/status.ts'
import { readState } from '../supervisor/state-file.ts'
import { controlUrl } from './urls.ts'

const REQUEST_TIMEOUT_MS = 2000
const PAUSE_MS = 100
/** How long the service may take to find out whether Redis can be reached. */
const REDIS_TIMEOUT_MS = 5000

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || host.startsWith('127.')

/** Reads the state of Redis from the first control port that answers. @returns undefined if none answers */
async function readRedisState(config: Config): Promise<CacheState | undefined> {
  for (const port of config.ports) {
    try {
      const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
      const response = await fetch(`${controlUrl(config, port)}/status`, { signal })
      return statusSchema.parse(await response.json()).redis
    } catch {}
  }
  return undefined
}

/**
 * The labels of the configured ports that are in maintenance. The state file is the source: it outlives the service.
 */
function labelsInMaintenance({ ports, stateFile }: Config): string[] {
  const state = readState(stateFile)
  if (state.is !== 'kept') return []
  return Object.keys(state.maintenance).filter(label => ports.some(port => port.label === label))
}

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

/** @returns the remarks, one line each */
export async function startRemarks(config: Config): Promise<string[]> {
  const deadlineMs = performance.now() + REDIS_TIMEOUT_MS
  let redis = await readRedisState(config)
  while (redis === 'connecting' && performance.now() < deadlineMs) {
    await delay(PAUSE_MS)
    redis = await readRedisState(config)
  }
  const remarks = [
    ...authRemarks(config),
    ...labelsInMaintenance(config).map(
      label => `${label} is still in maintenance: npm run ops -- resume ${label}`,
    ),
  ]
  if (redis === 'away')
    remarks.push(
      'Redis cannot be reached, so every read queries the database: start it, or correct REDIS_URL',
    )
  return remarks
}
