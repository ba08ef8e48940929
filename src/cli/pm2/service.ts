// The service itself under pm2: started as ecosystem.config.js says, stopped with its servers.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { root } from '../../config/root.ts'
import { serviceName } from '../command-line.ts'
import type { ProcessManager } from './process-manager.ts'
import { stopServers } from './servers.ts'

/** Where the private servers keep their data. */
export const base = join(root, 'var')

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
