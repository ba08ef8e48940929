// The service itself under pm2: started as ecosystem.config.js says, healthy on every port, stopped with its servers.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { healthUrl } from '../addresses.ts'
import { serviceName } from '../command-line.ts'
import type { Config, DataPortConfig } from '../config.ts'
import { root } from '../root.ts'
import type { ProcessManager } from './process-manager.ts'
import { stopServers } from './servers.ts'

/** Where the private servers keep their data. */
export const base = join(root, 'var')

const HEALTHY_TIMEOUT_MS = 60_000
const CHECK_TIMEOUT_MS = 2000
const PAUSE_MS = 100

const ecosystem = z.object({ apps: z.array(z.looseObject({ name: z.string() })) })

/** @param env goes before the environment of this process */
export async function startService(
  manager: ProcessManager,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const { apps } = ecosystem.parse(await import(pathToFileURL(join(root, 'ecosystem.config.js')).href))
  for (const app of apps) await manager.start({ ...app, env })
}

/** Stops the service, then its private servers. @returns whether anything ran */
export async function stopEverything(manager: ProcessManager): Promise<boolean> {
  const wasThere = await manager.remove(serviceName)
  return (await stopServers(manager, base)) > 0 || wasThere
}

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
 * @returns the labels of the ports in maintenance
 * @throws Error if the service ends meanwhile, or takes too long
 */
export async function untilHealthy(config: Config, manager: ProcessManager): Promise<string[]> {
  const giveUpMs = performance.now() + HEALTHY_TIMEOUT_MS
  const inMaintenance: string[] = []
  for (const port of config.ports) {
    for (;;) {
      const status = await checkPort(config, port)
      if (status === 404) inMaintenance.push(port.label)
      if (status === 404 || status === 200) break
      await manager.assertUp(serviceName, 'the service')
      if (performance.now() > giveUpMs)
        throw new Error(
          `${healthUrl(config, port, port)} answers ${status ?? 'nothing'} after ${HEALTHY_TIMEOUT_MS / 1000} s:` +
            ` ${(await manager.find(serviceName))?.outputLog} may say why`,
        )
      await delay(PAUSE_MS)
    }
  }
  return inMaintenance
}
