// What the tests of reloads have in common: a service with two workers.
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'
import { root } from '../../src/config/root.ts'
import { createOperator } from './operator.ts'
import { createDatabase, type ServiceOptions, startService } from './service.ts'

/** The folder of the settings, to be copied. */
export const configFolder = process.env.NODE_CONFIG_DIR ?? join(root, 'config')
const database = await createDatabase()
/** On a loaded machine, a client can pause for longer than a second between two requests on its connection. */
export const drain = { idleMs: 3000 }

/** Starts a service that stops with the test. */
export async function start(t: ExecutionContext, options: ServiceOptions = {}) {
  const service = await startService({ database, workers: 2, ...options })
  t.teardown(() => service.stop())
  return { service, operator: createOperator(service) }
}
