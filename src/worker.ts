// Entry point of a worker process: serves the API on every data port. It is controlled only by the supervisor's messages.
import cluster from 'node:cluster'
import type { RequestListener } from 'node:http'
import { createApp } from './api/app.ts'
import { createCallers } from './api/callers/callers.ts'
import { createCache } from './cache/cache.ts'
import { type Config, ConfigError, loadServingConfig } from './config/config.ts'
import { exitCodes, FatalError } from './core/exit-codes.ts'
import { createIsKnownHost } from './core/known-hosts.ts'
import type { SocketHandle } from './core/listen.ts'
import { createLogAndOutput } from './core/log.ts'
import {
  type DesiredState,
  parseDesiredState,
  parseSocketMessage,
  type WorkerMessage,
} from './core/messages.ts'
import { createDatabase } from './database/database.ts'
import { startFeed } from './database/feed/start-feed.ts'
import { createIdempotencyKeys } from './database/idempotency-keys.ts'
import { SchemaError } from './database/migrator.ts'
import { createLoggedClient } from './listener/client-address.ts'
import { createDataPort, type DataPort } from './listener/data-port.ts'
import { createRequestLog, type RequestLog } from './listener/request-log.ts'
import type { TlsSettings } from './listener/server.ts'
import { startHeartbeat } from './worker/heartbeat.ts'

/** Extra time after the drain deadline to exit by itself. */
const EXIT_GRACE_MS = 2000

/** Resolves when the message has been sent, or cannot be sent because the supervisor is gone. */
function send(message: WorkerMessage): Promise<void> {
  return new Promise(resolve => {
    if (process.send === undefined) resolve()
    else process.send(message, undefined, undefined, () => resolve())
  })
}

/** Runs `task` repeatedly, `everyMs` after it has ended. `task` must not reject. The timer does not keep the process alive. */
function repeat(everyMs: number, task: () => Promise<void>): void {
  setTimeout(async () => {
    await task()
    repeat(everyMs, task)
  }, everyMs).unref()
}

/** Returns the certificate of a port and the ticket keys; undefined for a port without TLS. */
function tlsOf({ keyPairs, ticketKeys }: DesiredState, label: string): TlsSettings | undefined {
  const keyPair = keyPairs[label]
  return keyPair && { keyPair, ticketKeys: Buffer.from(ticketKeys, 'base64') }
}

/**
 * Creates the data ports, which do not listen yet.
 * @throws ConfigError if the ports in the settings differ from those of the supervisor
 */
function createPorts(
  config: Config,
  desired: DesiredState,
  listener: RequestListener,
  requestLog: RequestLog | undefined,
): DataPort[] {
  const samePorts = config.ports.every(({ label, port }) => desired.ports[label]?.port === port)
  if (!samePorts || config.ports.length !== Object.keys(desired.ports).length)
    throw new ConfigError(['ports: changed ports require a restart; a reload cannot apply them'])
  return config.ports.map(port =>
    createDataPort({
      port,
      config,
      requestSocket: () => requestSocket(port.label),
      tls: tlsOf(desired, port.label),
      listener,
      requestLog,
    }),
  )
}

/** Resolvers of the sockets that were requested, by port label. */
const socketRequests = new Map<string, (socket: SocketHandle) => void>()

/** Resolves with the socket of a data port, which the supervisor has bound. */
function requestSocket(label: string): Promise<SocketHandle> {
  return new Promise(resolve => {
    socketRequests.set(label, resolve)
    void send({ type: 'socket-request', label })
  })
}

/** Serves until every data port is closed and its last connection has ended. */
async function serve(): Promise<void> {
  const config = await loadServingConfig()
  const { log, buffered } = createLogAndOutput(config.log.level, 'worker', config.node)
  const callers = await createCallers(
    config.auth,
    log,
    (source, keys) => void send({ type: 'issuer-keys', source, keys }),
  )
  const database = createDatabase(config.database, log, config.changes.keepSeconds > 0)
  const ports: DataPort[] = []
  const startedMs = performance.now()
  let hasDatabase = false
  let changes: Awaited<ReturnType<typeof startFeed>>
  const cache = createCache(config.cache, log)
  let desired: DesiredState | undefined
  const heartbeat = startHeartbeat({
    everyMs: config.fleet.beatMs,
    pool: database.pool,
    downSinceMs: () => (hasDatabase ? database.downSinceMs() : startedMs),
    cache,
    ports,
    changes: () => changes?.report(),
    appliedRevision: () => desired?.revision ?? 0,
    send,
  })

  const apply = (state: DesiredState): void => {
    desired = state
    log.level = state.logLevel
    callers?.useIssuerKeys(state.issuerKeys)
    for (const port of ports) {
      const tls = tlsOf(state, port.label)
      if (tls !== undefined) port.useTls(tls)
      const wanted = state.ports[port.label]
      port.setState(wanted?.state ?? 'serving', wanted)
    }
    heartbeat()
  }
  const initialState = await new Promise<DesiredState>(resolve => {
    process.on('message', (message, handle) => {
      const socket = parseSocketMessage(message)
      if (socket !== undefined && handle !== undefined && 'close' in handle)
        return socketRequests.get(socket.label)?.(handle)
      const state = parseDesiredState(message)
      if (state === undefined) return
      apply(state)
      resolve(state)
    })
    void send({ type: 'hello' })
  })
  let listening = false
  cluster.worker?.on('disconnect', () => {
    // Without this the cluster module exits immediately and drops requests in flight.
    if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true
    if (!listening) process.exit(exitCodes.stopped)
    for (const port of ports) port.setState('closing')
    // No supervisor is left to kill this worker if it does not exit in time.
    setTimeout(() => process.exit(exitCodes.stopped), config.drain.deadlineMs + EXIT_GRACE_MS).unref()
  })

  await database.ready()
  hasDatabase = true
  // Detects a lost database without traffic, too.
  repeat(config.fleet.beatMs, database.probe)
  const keys = createIdempotencyKeys(database, config.idempotency.keepSeconds)
  repeat(config.idempotency.removeEveryMs, () =>
    keys.removeExpired().catch((error: unknown) => {
      log.debug({ reason: String(error) }, 'expired idempotency keys not removed, retrying later')
    }),
  )
  changes = await startFeed(database, config.changes.keepSeconds, log)
  const app = createApp({
    limits: config.limits,
    database,
    cache,
    keys,
    feed: changes?.feed,
    log,
    isKnownHost: createIsKnownHost(config.host, config.hosts),
    findCaller: callers?.find,
  })
  const requestLog = config.log.requests
    ? createRequestLog(log, buffered, createLoggedClient(config))
    : undefined
  ports.push(...createPorts(config, initialState, app, requestLog))
  apply(desired ?? initialState)
  await Promise.all(ports.map(port => port.listen()))
  listening = true
  await send({ type: 'listening' })
  log.info('worker listening')
  await Promise.all(ports.map(port => port.closed))
  cache.close()
  await database.close()
}

/** Returns the error to report to the supervisor if an operator can fix the cause, else undefined. */
function fatalOf(error: unknown): FatalError | undefined {
  if (error instanceof FatalError) return error
  if (error instanceof ConfigError || error instanceof SchemaError)
    return new FatalError(exitCodes.configuration, error.message)
  return undefined
}

// Signals are sent to the whole process group. Workers ignore them: the supervisor tells each worker when to exit.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

// The cluster module fails to send when the supervisor is gone. The `disconnect` event handles that case.
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
