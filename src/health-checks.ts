// Asks a service how it is, from outside, as its proxies and operators do.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { controlUrl, healthUrl } from './addresses.ts'
import { serviceName } from './command-line.ts'
import type { Config, DataPortConfig } from './config.ts'
import { cacheStates } from './messages.ts'

const CHECK_TIMEOUT_MS = 2000
const PAUSE_MS = 100
/** How long it may take a service to know whether its Redis is there. */
const SETTLE_MS = 5000

/** What is read here of `/status`. */
const statusAnswer = z.object({
  ports: z.record(z.string(), z.object({ mode: z.string().nullable() })),
  redis: z.enum(cacheStates),
})
type KnownStatus = z.output<typeof statusAnswer>

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

/** A port in maintenance answers 404 or, its control port closed, lets another control port answer so. */
async function checkPort(config: Config, port: DataPortConfig): Promise<number | undefined> {
  const own = await check(healthUrl(config, port, port))
  if (own !== undefined) return own
  const others = config.ports.filter(other => other !== port)
  const answers = await Promise.all(others.map(other => check(healthUrl(config, port, other))))
  return answers.find(status => status === 404)
}

/**
 * Waits until every port's health check answers 200, or 404: an operator's maintenance outlives a restart.
 * @param assertRunning called between checks; what it throws ends the waiting
 * @throws Error after `timeoutMs`
 */
export async function untilHealthy(
  config: Config,
  timeoutMs: number,
  assertRunning: () => void | Promise<void>,
): Promise<void> {
  const giveUpMs = performance.now() + timeoutMs
  for (const port of config.ports) {
    for (;;) {
      const status = await checkPort(config, port)
      if (status === 404 || status === 200) break
      await assertRunning()
      if (performance.now() > giveUpMs)
        throw new Error(
          `${healthUrl(config, port, port)} answers ${status ?? 'nothing'} after ${timeoutMs / 1000} s:` +
            ` \`npx pm2 logs ${serviceName}\` may say why`,
        )
      await delay(PAUSE_MS)
    }
  }
}

/** Of any control port that answers: the one of a port in maintenance may be closed. */
async function readStatus(config: Config): Promise<KnownStatus | undefined> {
  for (const port of config.ports) {
    try {
      const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS)
      const answer = await fetch(`${controlUrl(config, port)}/status`, { signal })
      return statusAnswer.parse(await answer.json())
    } catch {}
  }
  return undefined
}

/** @returns what its user should know of a service that runs, a line each */
export async function remarksOn(config: Config): Promise<string[]> {
  const giveUpMs = performance.now() + SETTLE_MS
  let status = await readStatus(config)
  while (status?.redis === 'connecting' && performance.now() < giveUpMs) {
    await delay(PAUSE_MS)
    status = await readStatus(config)
  }
  if (status === undefined) return []
  const inMaintenance = Object.entries(status.ports).filter(([, { mode }]) => mode !== null)
  return [
    ...inMaintenance.map(
      ([label]) => `${label} is in maintenance, as it was: npm run ops -- resume ${label}`,
    ),
    ...(status.redis === 'away'
      ? ['Redis cannot be reached, so that every read goes to the database: start it, or correct REDIS_URL']
      : []),
  ]
}
