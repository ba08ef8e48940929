// Entry of the supervisor, the process that pm2 starts: it owns the control ports, the drain state and the workers.
import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ConfigError, loadServingConfig } from './config/config.ts'
import { exitCodes, FatalError } from './core/exit-codes.ts'
import { untilFree } from './core/listen.ts'
import { createLog } from './core/log.ts'
import type { DesiredState } from './core/messages.ts'
import { loadCertificates } from './supervisor/certificates.ts'
import { createCluster } from './supervisor/cluster/processes.ts'
import { createCommands } from './supervisor/commands.ts'
import { createCheckers } from './supervisor/control/checkers.ts'
import { createControl } from './supervisor/control/control-ports.ts'
import { createDocuments } from './supervisor/control/documents.ts'
import { createStatus } from './supervisor/control/status.ts'
import { createClusterTraffic } from './supervisor/control/traffic-totals.ts'
import { createMaintenance } from './supervisor/maintenance.ts'
import { connectPm2 } from './supervisor/pm2-actions.ts'

/** Beyond the drain deadline, for a worker to end by itself. */
const LAST_GRACE_MS = 2000

/** @param reason a last word for people, whatever the log level */
function end(exitCode: number, reason: string): never {
  if (exitCode !== exitCodes.stopped) process.stderr.write(`users-api: ${reason}\n`)
  process.exit(exitCode)
}

/** The worker beside this file: compiled like it, or run from source like it. */
function workerFile(): string {
  return fileURLToPath(new URL(`./worker${extname(import.meta.url)}`, import.meta.url))
}

/** Resolves when the supervisor is up; from then on it lives by events. */
async function supervise(): Promise<void> {
  const config = await loadServingConfig()
  const log = createLog(config.log.level, 'supervisor')
  if (config.cache.url === null) log.warn('there is no REDIS_URL: the service runs without a cache')
  const certificates = await loadCertificates(config).catch((error: Error) => {
    throw new ConfigError([error.message])
  })
  let logLevel = config.log.level
  const ticketKeys = randomBytes(48).toString('base64')
  const checkers = createCheckers()

  const maintenance = createMaintenance(config, log, () => {
    cluster.sendAll()
    for (const label of maintenance.labels) void control.sync(label)
  })
  const desiredState = (revision: number): DesiredState => ({
    type: 'desired-state',
    revision,
    ports: Object.fromEntries(
      config.ports.map(({ label, port }) => {
        const state = maintenance.of(label).mode === null ? 'serving' : 'draining'
        return [label, { port, state }]
      }),
    ),
    keyPairs: certificates.pairs(),
    ticketKeys,
    logLevel,
  })
  const traffic = createClusterTraffic(maintenance.labels)
  const cluster = createCluster({
    limits: {
      workers: config.workers === 'auto' ? availableParallelism() : config.workers,
      bootMs: config.fleet.bootMs,
      silentMs: config.fleet.silentMs,
      retireMs: config.drain.deadlineMs + LAST_GRACE_MS,
      bootFailures: config.fleet.bootFailures,
    },
    memoryBytes: config.fleet.memoryBytes,
    scheduling: config.fleet.scheduling,
    exec: workerFile(),
    log,
    desiredState,
    heartbeat: traffic.heartbeat,
    listening: () => process.send?.('ready'),
    end(exitCode, reason) {
      log.info({ reason }, 'the supervisor ends')
      end(exitCode, reason)
    },
  })
  const status = createStatus({ config, maintenance, cluster, checkers })
  const control = createControl({
    config,
    log,
    checkers,
    health: status.health,
    documents: createDocuments(maintenance.labels, {
      status: status.now,
      health: status.health,
      totals: traffic.totals,
      workers: cluster.workers,
    }),
    isOpen: label => maintenance.of(label).mode !== 'refuse',
  })
  const commands = createCommands({
    config,
    log,
    maintenance,
    cluster,
    sync: control.sync,
    status: status.now,
    setLogLevel(level) {
      logLevel = level
      log.level = level
      cluster.sendAll()
    },
    async reloadCertificates() {
      const known = await certificates.reload()
      cluster.sendAll()
      return known
    },
  })

  /** The first time it stops the service; again, it skips the wait that is on. */
  const stop = (by: string): void => {
    const again = cluster.isStopping()
    if (again) cluster.skipWait()
    else cluster.stop(maintenance.drainAll(by))
    log.info({ by }, again ? 'no more waiting' : 'the service stops')
  }
  /** Who started this process is gone: as an orphan it would hold the ports against its successor. */
  const abandoned = (by: string): void => {
    if (!cluster.isStopping()) stop(by)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
  process.on('SIGUSR2', () => commands.run('reload', null, 'SIGUSR2'))
  process.on('disconnect', () => abandoned('the end of pm2'))
  process.stdout.on('error', error => {
    // Not for a full disk.
    if ('code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET'))
      abandoned('the end of its output')
  })

  await control.open()
  // A predecessor's workers may be just leaving; ours have one attempt.
  const reusePort = config.fleet.scheduling === 'reuse-port'
  for (const { label, port } of config.ports)
    await untilFree({ host: config.host, port, reusePort }, `data port ${label}`)
  cluster.start()
  connectPm2(process, commands)
}

try {
  await supervise()
} catch (error) {
  if (error instanceof FatalError) end(error.exitCode, error.message)
  if (error instanceof ConfigError) end(exitCodes.configuration, error.message)
  throw error
}
