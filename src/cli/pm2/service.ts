// Starts the service under pm2 as ecosystem.config.js defines it, and stops it together with its private servers.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as z from 'zod'
import { root } from '../../config/root.ts'
import { serviceName } from '../command-line.ts'
import { removeApp, startApp } from './process-manager.ts'
import { stopServers } from './servers.ts'

const ecosystem = z.object({ apps: z.array(z.looseObject({ name: z.string() })) })

/** @param env overrides variables of this process's environment */
export async function startService(env: Readonly<Record<string, string>>): Promise<void> {
  const { apps } = ecosystem.parse(await import(pathToFileURL(join(root, 'ecosystem.config.js')).href))
  for (const app of apps) await startApp({ ...app, env })
}

/** Stops the service, then its private servers. @returns whether the service or a server was running */
export async function stopEverything(): Promise<boolean> {
  const wasRunning = await removeApp(serviceName)
  return (await stopServers()) || wasRunning
}
