// Asks a service how it is, from outside, as its proxies and operators do.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { Config } from '../config/config.ts'
import { type CacheState, cacheStates } from '../core/messages.ts'
import type { DrainMode } from '../supervisor/port-states.ts'
import { readState } from '../supervisor/state-file.ts'
import { serviceName } from './command-line.ts'
import { controlUrl, healthUrl } from './urls.ts'

const CHECK_TIMEOUT_MS = 2000
const PAUSE_MS = 100
/** How long it may take a service to know whether its Redis is there. */
const SETTLE_MS = 5000

/** What is read here of `/status`. */
const statusAnswer = z.object({ redis: z.enum(cacheStates) })

/** Asks for a health check; gives its status, or undefined where nobody answers. */
async function check(url: string): Promise<number | undefined> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })
    await answer.body?.cancel()
    return answer.status
  } catch {
    return undefined
  }
}

/** The ports in maintenance, by label, with its mode; it outlives the service, so that a file has it. */
function maintenanceOf({ ports, stateFile }: Config): Map<string, DrainMode | null> {
  const state = readState(stateFile)
  const kept = state.is === 'kept' ? Object.entries(state.maintenance) : []
  return new Map(
    kept
      .filter(([label]) => ports.some(port => port.label === label))
      .map(([label, { mode }]) => [label, mode]),
  )
}

/**
 * Waits until every port's health check answers 200, or 404 in maintenance; one that maintenance refuses cannot be asked.
 * @param assertRunning called between checks; what it throws ends the waiting
 * @throws Error after `timeoutMs`
 */
export async function untilHealthy(
  config: Config,
  timeoutMs: number,
  assertRunning: () => void | Promise<void>,
): Promise<void> {
  const giveUpMs = performance.now() + timeoutMs
  const maintenance = maintenanceOf(config)
  await assertRunning()
  for (const port of config.ports.filter(({ label }) => maintenance.get(label) !== 'refuse')) {
    const url = healthUrl(config, port)
    for (;;) {
      const status = await check(url)
      if (status === 404 || status === 200) break
      await assertRunning()
      if (performance.now() > giveUpMs)
        throw new Error(
          `${url} answers ${status ?? 'nothing'} after ${timeoutMs / 1000} s:` +
            ` \`npx pm2 logs ${serviceName}\` may say why`,
        )
      await delay(PAUSE_MS)
    }
  }
}

/** What a service knows of its Redis; undefined where every control port is closed. */
async function askRedis(config: Config): Promise<CacheState | undefined> {
  for (const port of config.ports) {
    try {
      const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS)
      const answer = await fetch(`${controlUrl(config, port)}/status`, { signal })
      return statusAnswer.parse(await answer.json()).redis
    } catch {}
  }
  return undefined
}

/** @returns what its user should know of a service that runs, a line each */
export async function remarksOn(config: Config): Promise<string[]> {
  const giveUpMs = performance.now() + SETTLE_MS
  let redis = await askRedis(config)
  while (redis === 'connecting' && performance.now() < giveUpMs) {
    await delay(PAUSE_MS)
    redis = await askRedis(config)
  }
  const remarks = [...maintenanceOf(config).keys()].map(
    label => `${label} is in maintenance, as it was: npm run ops -- resume ${label}`,
  )
  if (redis === 'away')
    remarks.push(
      'Redis cannot be reached, so that every read goes to the database: start it, or correct REDIS_URL',
    )
  return remarks
}
