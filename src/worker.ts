// Entry of a worker process: serves the API on every data port, and obeys the supervisor's messages alone.
import cluster from 'node:cluster'
import type { RequestListener } from 'node:http'
import { createApp } from './api/app.ts'
import { createCache } from './cache/cache.ts'
import { type Config, ConfigError, loadServingConfig } from './config/config.ts'
import { exitCodes, FatalError } from './core/exit-codes.ts'
import { createLogAndOutput } from './core/log.ts'
import { type DesiredState, parseDesiredState, type WorkerMessage } from './core/messages.ts'
import { createDatabase } from './database/database.ts'
import { RefusedError } from './database/driver-errors.ts'
import { createIdempotencyKeys } from './database/idempotency-keys.ts'
import { UnmigratedError } from './database/migrator.ts'
import { createDataPort, type DataPort } from './listener/data-port.ts'
import { startHeartbeat } from './listener/heartbeat.ts'
import { createRequestLog, type RequestLog } from './listener/request-log.ts'

const LAST_GRACE_MS = 2000

/** Resolves when the message is on its way, or can never be: the supervisor is gone. */
function send(message: WorkerMessage): Promise<void> {
  return new Promise(resolve => {
    if (process.send === undefined) resolve()
    else process.send(message, undefined, undefined, () => resolve())
  })
}

/** Does what never fails again and again, for as long as the worker has something else to do. */
function repeat(everyMs: number, act: () => Promise<void>): void {
  setTimeout(async () => {
    await act()
    repeat(everyMs, act)
  }, everyMs).unref()
}

/** The ports as the first message of the supervisor wants them; they do not listen yet. */
function createPorts(
  config: Config,
  desired: DesiredState,
  listener: RequestListener,
  requestLog: RequestLog | undefined,
): DataPort[] {
  const same = config.ports.every(({ label, port }) => desired.ports[label]?.port === port)
  if (!same || config.ports.length !== Object.keys(desired.ports).length)
    throw new ConfigError(['ports: a change of the ports takes a restart, not a reload'])
  const ticketKeys = Buffer.from(desired.ticketKeys, 'base64')
  return config.ports.map(port =>
    createDataPort({
      port,
      config,
      reusePort: config.fleet.scheduling === 'reuse-port',
      keyPair: desired.keyPairs[port.label],
      ticketKeys,
      listener,
      requestLog,
    }),
  )
}

/** Leaves the cluster, which waits until the supervisor has taken back every connection on its way here. */
async function leave(): Promise<void> {
  if (!process.connected) return
  await new Promise(resolve => {
    process.once('disconnect', resolve)
    cluster.worker?.disconnect()
  })
}

/** Resolves when there is nothing left to serve. */
async function serve(): Promise<void> {
  const config = await loadServingConfig()
  const { log, buffered } = createLogAndOutput(config.log.level, 'worker')
  const database = createDatabase(config.database, log)
  const ports: DataPort[] = []
  const bornMs = Date.now()
  let hasDatabase = false
  const cache = createCache(config.cache, log)
  let desired: DesiredState | undefined
  const heartbeat = startHeartbeat({
    everyMs: config.fleet.beatMs,
    pool: database.pool,
    downSinceMs: () => (hasDatabase ? database.downSinceMs() : bornMs),
    cache,
    ports,
    appliedRevision: () => desired?.revision ?? 0,
    send,
  })

  const apply = (): void => {
    log.level = desired?.logLevel ?? log.level
    for (const port of ports) {
      const keyPair = desired?.keyPairs[port.label]
      if (keyPair !== undefined) port.useKeyPair(keyPair)
      port.setState(desired?.ports[port.label]?.state ?? 'serving')
    }
    heartbeat()
  }
  const first = await new Promise<DesiredState>(resolve => {
    process.on('message', message => {
      desired = parseDesiredState(message) ?? desired
      apply()
      if (desired !== undefined) resolve(desired)
    })
    void send({ type: 'hello' })
  })
  let listening = false
  cluster.worker?.on('disconnect', () => {
    // Without this the cluster module ends the process at once, in the middle of its answers.
    if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true
    if (!listening) process.exit(exitCodes.stopped)
    for (const port of ports) port.setState('closing')
    // Nobody is left to kill it, should it not come to its end.
    setTimeout(() => process.exit(exitCodes.stopped), config.drain.deadlineMs + LAST_GRACE_MS).unref()
  })

  await database.ready()
  hasDatabase = true
  // So its loss is known without traffic, too.
  repeat(config.fleet.beatMs, database.probe)
  const keys = createIdempotencyKeys(database, config.idempotency.keepSeconds)
  repeat(config.idempotency.removeEveryMs, () =>
    keys.removeExpired().catch((error: unknown) => {
      log.debug({ reason: String(error) }, 'expired idempotency keys stay for now')
    }),
  )
  const app = createApp({ limits: config.limits, database, cache, keys, log })
  const requestLog = config.log.requests ? createRequestLog(log, buffered) : undefined
  ports.push(...createPorts(config, first, app, requestLog))
  apply()
  await Promise.all(ports.map(port => port.listen()))
  listening = true
  await send({ type: 'listening' })
  log.info('the worker listens')
  await Promise.all(ports.map(port => port.closed))
  cache.close()
  await database.close()
  await leave()
}

/** What its user can mend ends the worker with a reason that the supervisor passes on. */
function fatalOf(error: unknown): FatalError | undefined {
  if (error instanceof FatalError) return error
  if (error instanceof ConfigError || error instanceof UnmigratedError)
    return new FatalError(exitCodes.configuration, error.message)
  if (error instanceof RefusedError) return new FatalError(exitCodes.noWorkers, error.message)
  return undefined
}

// Signals reach the whole process group; when to go is the supervisor's to send.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

// What the cluster module could not send: the supervisor is gone, and the disconnect tells what to do.
cluster.worker?.on('error', () => {})

try {
  await serve()
  process.exit(exitCodes.stopped)
} catch (error) {
  const fatal = fatalOf(error)
  if (fatal === undefined) throw error
  await send({ type: 'fatal', exitCode: fatal.exitCode, reason: fatal.message })
  process.exit(fatal.exitCode)
}
