// Entry point of the supervisor, the process that pm2 starts. It owns the control ports, the maintenance state and the workers.
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

/** Extra time after the drain deadline for a worker to exit by itself. */
const EXIT_GRACE_MS = 2000

/** Ends the process. @param reason printed to stderr at any log level, unless the exit code is 0 */
function exit(exitCode: number, reason: string): never {
  if (exitCode !== exitCodes.stopped) process.stderr.write(`users-api: ${reason}\n`)
  process.exit(exitCode)
}

/** Returns the path of the worker beside this file: .js if compiled, .ts if run from source. */
function workerFile(): string {
  return fileURLToPath(new URL(`./worker${extname(import.meta.url)}`, import.meta.url))
}

/** Starts the supervisor. Resolves after the startup; the process then runs on events. */
async function supervise(): Promise<void> {
  const config = await loadServingConfig()
  const log = createLog(config.log.level, 'supervisor')
  if (config.cache.url === null) log.warn('REDIS_URL is not set: running without a cache')
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
        const state = maintenance.get(label).mode === null ? 'serving' : 'draining'
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
      retireMs: config.drain.deadlineMs + EXIT_GRACE_MS,
      bootFailures: config.fleet.bootFailures,
    },
    heartbeatMs: config.fleet.beatMs,
    memoryBytes: config.fleet.memoryBytes,
    scheduling: config.fleet.scheduling,
    exec: workerFile(),
    log,
    desiredState,
    heartbeat: traffic.heartbeat,
    listening: () => process.send?.('ready'),
    exit(exitCode, reason) {
      log.info({ reason }, 'supervisor exiting')
      exit(exitCode, reason)
    },
  })
  const status = createStatus({ config, maintenance, cluster, checkers })
  const control = createControl({
    config,
    log,
    checkers,
    health: status.health,
    documents: createDocuments(maintenance.labels, {
      status: status.current,
      health: status.health,
      totals: traffic.totals,
      workers: cluster.workers,
    }),
    isOpen: label => maintenance.get(label).mode !== 'refuse',
  })
  const commands = createCommands({
    config,
    log,
    maintenance,
    cluster,
    sync: control.sync,
    status: status.current,
    setLogLevel(level) {
      logLevel = level
      log.level = level
      cluster.sendAll()
    },
    async reloadCertificates() {
      const descriptions = await certificates.reload()
      cluster.sendAll()
      return descriptions
    },
  })

  /** The first call stops the service. Each further call skips the current wait. */
  const stop = (by: string): void => {
    const isStopping = cluster.isStopping()
    if (isStopping) cluster.skipWait()
    else cluster.stop(maintenance.drainAll(by))
    log.info({ by }, isStopping ? 'wait skipped' : 'service stopping')
  }
  /** The parent process is gone. An orphaned supervisor would keep the ports from the next one, so it stops. */
  const stopAsOrphan = (by: string): void => {
    if (!cluster.isStopping()) stop(by)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
  process.on('SIGUSR2', () => commands.run('reload', null, 'SIGUSR2'))
  process.on('disconnect', () => stopAsOrphan('pm2 disconnected'))
  process.stdout.on('error', error => {
    // Other errors, such as a full disk, do not stop the service.
    if ('code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET'))
      stopAsOrphan('output closed')
  })

  await control.open()
  // Workers of the previous supervisor may still be exiting. A worker itself tries to listen only once.
  const reusePort = config.fleet.scheduling === 'reuse-port'
  for (const { label, port } of config.ports)
    await untilFree({ host: config.host, port, reusePort }, `data port ${label}`)
  cluster.start()
  connectPm2(process, commands)
}

try {
  await supervise()
} catch (error) {
  if (error instanceof FatalError) exit(error.exitCode, error.message)
  if (error instanceof ConfigError) exit(exitCodes.configuration, error.message)
  throw error
}
