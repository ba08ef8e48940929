// Entry point of `npm start`: starts the private servers and the service under pm2 and waits until the service is ready.
// If the start fails or is interrupted, everything that it has started is stopped.
import { once } from 'node:events'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { print, runCommand, serviceName } from './cli/command-line.ts'
import { readStatus } from './cli/operator/client.ts'
import { assertUp, findApp, withPm2 } from './cli/pm2/process-manager.ts'
import { startServer } from './cli/pm2/servers.ts'
import { startService, stopEverything } from './cli/pm2/service.ts'
import { assertPortsFree, migrateWhenUp } from './cli/preflight.ts'
import { assertWritable } from './cli/private-servers/folders.ts'
import { base, startMissingServers } from './cli/private-servers/missing-servers.ts'
import { lockStart } from './cli/start-lock.ts'
import { startRemarks } from './cli/start-remarks.ts'
import { dataUrl, describeUrls, directPort } from './cli/urls.ts'
import { isAuthOn } from './config/auth.ts'
import { type Config, loadConfig } from './config/config.ts'
import { root } from './config/root.ts'
import { exitCodes, FatalError } from './core/exit-codes.ts'
import { isServed } from './supervisor/socket-file.ts'
import { readState } from './supervisor/state-file.ts'

/** Longer than a step takes until pm2 lists the app that it starts: up to 30 ms on an idle machine. */
const STEP_MS = 1000

/** The text that is printed after a start. */
function describeService(config: Config): string {
  const port = directPort(config) ?? config.ports[0]
  if (port === undefined) return ''
  const token = isAuthOn(config.auth) ? "-H 'Authorization: Bearer <token>' " : ''
  const curl = `curl ${port.protocol === 'https' ? '-k ' : ''}${token}${dataUrl(config, port)}/v1/users`
  return `${describeUrls(config)}
Try:
  ${curl} -H 'Content-Type: application/json' -d '{"first_name": "Ada", "last_name": "Lovelace"}'
  npm run load -- test/data/community.json      load users and groups from a JSON or CSV file
  npm run ops -- status                         show the state of each port

\`npx pm2 logs ${serviceName}\` shows the log; \`npm stop\` stops the service and keeps its data in var/.
`
}

async function assertPreconditions(config: Config): Promise<void> {
  await assertPortsFree(config)
  // Its private servers would be stopped while it runs. If the socket cannot be tested, the supervisor says why.
  if (await isServed(config.control.socket).catch(() => false))
    throw new Error(
      'the service of this folder runs, but not under this pm2: run npm stop with the PM2_HOME of its start, or send SIGTERM to its process',
    )
  await assertWritable(dirname(config.stateFile))
  if (config.database.url === null || config.cache.url === null) await assertWritable(base)
}

/** @param begin prints the next step; throws after an interruption, so that no further step is started */
async function startAll(config: Config, begin: (step: string) => void): Promise<void> {
  const env = await startMissingServers(config, { base, durable: true, print: begin }, startServer)
  const url = config.database.url ?? env.DATABASE_URL
  if (url !== undefined) await migrateWhenUp(url, begin)
  begin('starting the service')
  await startService(env)
  await assertUp(serviceName, 'the service')
  const status = await readStatus(config.control.socket, 'npm start')
  if (!status?.workers.some(({ state }) => state === 'ready'))
    throw new Error(`no worker has become ready: \`npx pm2 logs ${serviceName}\` may show the reason`)
}

/**
 * @returns a signal that aborts at the first SIGINT or SIGTERM. A Ctrl-C can arrive twice, because npm forwards the
 * SIGINT that the terminal has already sent to the whole process group.
 */
function interruption(): AbortSignal {
  const controller = new AbortController()
  const stopped = new FatalError(exitCodes.interrupted, 'stopped')
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => controller.abort(stopped))
  return controller.signal
}

async function startOrUndo(config: Config): Promise<void> {
  await assertPreconditions(config)
  const interrupted = interruption()
  const begin = (step: string): void => {
    interrupted.throwIfAborted()
    print(step)
  }
  const starting = startAll(config, begin)
  try {
    await Promise.race([starting, once(interrupted, 'abort').then(() => interrupted.throwIfAborted())])
  } catch (error) {
    if (interrupted.aborted) print('interrupted: stopping everything that this command has started')
    // The step in progress can be about to start an app, which pm2 does not list yet.
    await Promise.race([starting.catch(() => {}), delay(STEP_MS)])
    await stopEverything()
    throw error
  }
}

async function start(config: Config): Promise<number> {
  const app = await findApp(serviceName)
  if (app?.isRunning && `${app.folder}/` !== root)
    throw new Error(
      `already running, but from ${app.folder}: stop it there, or run a second instance here with other` +
        ' `ports` and, for every command, `export PM2_HOME=$PWD/var/pm2`',
    )
  // Its requests would be cut: a start removes an app that does not run.
  if (app?.isStopping)
    throw new Error(
      'the service is stopping, and waits for requests in flight: run npm start again once it has stopped',
    )
  const startedMs = performance.now()
  const state = readState(config.stateFile)
  if (!app?.isRunning) await startOrUndo(config)
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
  const outcome = app?.isRunning
    ? 'already running: if settings, the environment or the code have changed since its start, run `npm stop`, then `npm start`'
    : `started in ${seconds} s`
  print(`${outcome}\n${describeService(config)}`)
  for (const remark of await startRemarks(config)) print(remark)
  if (!app?.isRunning && state.is === 'damaged')
    print(
      `${config.stateFile} was damaged, so every port is in service: npm run ops -- drain <label> puts one back into maintenance`,
    )
  return 0
}

async function main(): Promise<number> {
  parseArgs({ options: {} })
  const config = await loadConfig()
  await lockStart()
  return withPm2(() => start(config))
}

const usage = `usage: npm start

  starts the service under pm2 and waits until it is healthy; without DATABASE_URL and REDIS_URL, with a private database
  and Redis in var/`

process.exit(await runCommand(main, usage))
