// Entry point of a worker process: serves the API on every data port. It is controlled only by the supervisor's messages.
import { setFlagsFromString } from 'node:v8'
import { createApp } from './api/app.ts'
import { createCallers } from './api/callers/callers.ts'
import { createCache } from './cache/cache.ts'
import { loadServingConfig } from './config/config.ts'
import { reasonOf } from './core/error-reason.ts'
import { EXIT_GRACE_MS, exitCodeOf, exitCodes } from './core/exit-codes.ts'
import { createIsKnownHost } from './core/known-hosts.ts'
import { createLogAndOutput } from './core/log.ts'
import { repeat } from './core/repeat.ts'
import { createDatabase } from './database/database.ts'
import { createChangeFeed } from './database/feed/change-feed.ts'
import { createIdempotencyKeys } from './database/idempotency-keys.ts'
import { createRequestLog } from './listener/request-log.ts'
import { createDataPorts } from './worker/data-ports.ts'
import { startHeartbeat } from './worker/heartbeat.ts'
import { openSupervisorChannel } from './worker/supervisor-channel.ts'

const supervisor = openSupervisorChannel()

/** Serves until every data port is closed and its last connection has ended. */
async function serve(): Promise<void> {
  const config = await loadServingConfig()
  const desired = await supervisor.hello()
  const beatMs = desired.beatMs ?? config.fleet.beatMs
  // Not the level in the settings: the command log-level may have set another one.
  const { log, buffered } = createLogAndOutput(desired.logLevel, 'worker', config.node)
  const callers = await createCallers(
    config.auth,
    log,
    (source, keys) => void supervisor.send({ type: 'issuer-keys', source, keys }),
    desired.issuerKeys,
  )
  const database = createDatabase(config.database, log, config.changes.keepSeconds > 0)
  const cache = createCache(config.cache, log)
  const idempotencyKeys = createIdempotencyKeys(database, config.idempotency.keepSeconds)
  const changes = createChangeFeed(database, config.changes.keepSeconds, log)
  const app = createApp({
    limits: config.limits,
    database,
    cache,
    idempotencyKeys,
    feed: changes.feed,
    log,
    isKnownHost: await createIsKnownHost(desired.host ?? config.host, desired.hosts ?? config.hosts),
    findCaller: callers?.find,
  })
  const requestLog = config.log.requests ? createRequestLog(log, buffered, config.log.client) : undefined
  const ports = createDataPorts({
    config,
    desired,
    requestSocket: supervisor.requestSocket,
    listener: app,
    requestLog,
  })
  const report = startHeartbeat({
    everyMs: beatMs,
    database,
    cache,
    ports: ports.open,
    changes: changes.report,
    send: supervisor.send,
  })
  supervisor.follow(state => {
    log.level = state.logLevel
    callers?.useIssuerKeys(state.issuerKeys)
    ports.apply(state)
    void report(state.revision)
  })

  await database.ready()
  const onError = (error: unknown) =>
    log.debug({ reason: reasonOf(error) }, 'a task has failed, retrying later')
  // Detects a lost database without traffic, too.
  void repeat(beatMs, database.probe, onError)
  void repeat(config.idempotency.removeEveryMs, idempotencyKeys.removeExpired, onError)
  await changes.start()
  await ports.listen()
  supervisor.onLost(() => {
    ports.close()
    // No supervisor is left to kill this worker if it does not exit in time.
    setTimeout(() => process.exit(exitCodes.stopped), config.drain.deadlineMs + EXIT_GRACE_MS).unref()
  })
  await supervisor.send({ type: 'listening' })
  log.info('worker listening')
  await ports.closed
  // The metrics count what a worker has reported.
  await report()
  cache.close()
  await database.close()
}

// A request can make a package call what Node warns about, such as `url.parse` with an invalid port. Operators cannot mend that.
process.noDeprecation = true

// V8 would otherwise allocate the objects of each request in its old generation after a burst, for as long as the worker lives.
// decisions/young-objects.md explains this.
setFlagsFromString('--no-allocation-site-pretenuring')

// Signals are sent to the whole process group. Workers ignore them: the supervisor tells each worker when to exit.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) process.on(signal, () => {})

try {
  await serve()
  process.exit(exitCodes.stopped)
} catch (error) {
  // The supervisor reports only what an operator can fix.
  const exitCode = exitCodeOf(error)
  if (exitCode === undefined) throw error
  await supervisor.send({ type: 'fatal', exitCode, reason: reasonOf(error) })
  process.exit(exitCode)
}
