// Entry point of the supervisor, the process that pm2, systemd or a container starts. It owns the control ports, the
// maintenance state and the workers.
import { availableParallelism } from 'node:os'
import { dirname, extname, join } from 'node:path'
import { setInterval } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ConfigError, loadServingConfig } from './config/config.ts'
import { countListenFds, readSystemdRequest } from './config/systemd.ts'
import { reasonOf } from './core/error-reason.ts'
import { EXIT_GRACE_MS, exitCodeOf, exitCodes } from './core/exit-codes.ts'
import { createIsKnownHost } from './core/known-hosts.ts'
import { bind, type DataSocket } from './core/listen.ts'
import { createLog } from './core/log.ts'
import { missingOpenFiles } from './core/open-files.ts'
import { createCertificates } from './supervisor/certificates.ts'
import { createCommands } from './supervisor/commands.ts'
import { createCheckers } from './supervisor/control-ports/checkers.ts'
import { createControlPorts } from './supervisor/control-ports/control-ports.ts'
import { createDocuments } from './supervisor/control-ports/documents.ts'
import { createStatusReader } from './supervisor/control-ports/status.ts'
import { createControlSocket } from './supervisor/control-socket.ts'
import { createDesiredState } from './supervisor/desired-state.ts'
import { createDiagnoses } from './supervisor/diagnoses.ts'
import { createFleet } from './supervisor/fleet/fleet.ts'
import { takeSockets } from './supervisor/inherited-sockets.ts'
import { createMaintenance } from './supervisor/maintenance.ts'
import { connectPm2 } from './supervisor/pm2-actions.ts'
import { createSystemd } from './supervisor/systemd.ts'
import { createTicketKeys } from './supervisor/ticket-keys.ts'

/** Ends the process. @param reason printed to stderr at any log level, unless the exit code is 0 */
function exit(exitCode: number, reason: string): never {
  if (exitCode !== exitCodes.stopped) process.stderr.write(`users-api: ${reason}\n`)
  process.exit(exitCode)
}

/** What signals do. Before the start, there is nothing to reload, and the process exits at once. */
const onSignal = {
  stop: (by: string): void => exit(exitCodes.stopped, by),
  reload: (): void => {},
}

/** Starts the supervisor, which then runs on events, and reads the files of certificates and ticket keys again. */
async function supervise(): Promise<void> {
  const config = await loadServingConfig()
  const log = createLog(config.log.level, 'supervisor', config.node)
  if (config.cache.url === null) log.warn('REDIS_URL is not set: running without a cache')
  const files = await missingOpenFiles(config)
  if (files !== undefined)
    log.warn(
      files,
      'the limit of open files is too low for limits.connections: raise it (ulimit -n, LimitNOFILE)',
    )
  const desired = createDesiredState(config.log.level, {
    beatMs: config.fleet.beatMs,
    host: config.host,
    hosts: config.hosts,
  })
  const certificates = createCertificates(config, log, desired)
  const ticketKeys = createTicketKeys(config, log, desired)
  const loaded = await Promise.allSettled([certificates.load(), ticketKeys.load()])
  const faults = loaded.flatMap(one => (one.status === 'rejected' ? [reasonOf(one.reason)] : []))
  if (faults.length > 0) throw new ConfigError(faults)
  const maintenance = createMaintenance(config, log, desired)
  const sockets = new Map<string, DataSocket>()
  const inherited = await takeSockets(countListenFds(), config)
  const systemd = createSystemd(readSystemdRequest(), log)
  /** The reason of a stop without a command. */
  let orphanedBy: string | undefined
  const fleet = createFleet({
    settings: {
      ...config.fleet,
      workers: config.workers === 'auto' ? availableParallelism() : config.workers,
      retireMs: config.drain.deadlineMs + EXIT_GRACE_MS,
    },
    // Beside this file: .js if built, .ts if run from source.
    exec: fileURLToPath(new URL(`./worker${extname(import.meta.url)}`, import.meta.url)),
    log,
    desired,
    sockets,
    listening() {
      process.send?.('ready')
      systemd.ready()
    },
    exit(exitCode, reason) {
      log.info({ reason }, 'supervisor exiting')
      if (orphanedBy === undefined) exit(exitCode, reason)
      exit(exitCodes.orphaned, `stopped without a command: ${orphanedBy}`)
    },
  })
  const checkers = createCheckers()
  const status = createStatusReader({ config, maintenance, fleet, checkers, certificates })
  const documents = createDocuments(maintenance.labels, status, fleet)
  const controlPorts = createControlPorts({
    config,
    log,
    checkers,
    isKnownHost: await createIsKnownHost(config.control.host, config.hosts),
    health: status.health,
    documents,
    maintenance,
    inherited: inherited.control,
  })
  const commands = createCommands({
    config,
    log,
    desired,
    maintenance,
    fleet,
    controlPorts,
    certificates,
    status,
    diagnoses: createDiagnoses(join(dirname(config.stateFile), 'diagnostics'), fleet.excuse),
  })
  const controlSocket = createControlSocket(config.control.socket, commands)

  /** The first call stops the service. Each further call skips the current wait. @param by the signal or the event */
  function stop(by: string): void {
    if (fleet.isStopping()) {
      fleet.skipWait()
      log.info({ by }, 'further signal, waiting no longer')
      return
    }
    fleet.stop(maintenance.drainAll(by))
    void fleet.publish()
    for (const label of maintenance.labels) void controlPorts.sync(label)
    systemd.stopping()
    log.info({ by }, 'service stopping')
  }
  /** The parent process is gone. An orphaned supervisor would keep the ports from the next one, so it stops. */
  function stopAsOrphan(by: string): void {
    if (fleet.isStopping()) return
    orphanedBy = by
    stop(by)
  }
  onSignal.stop = stop
  onSignal.reload = () => void commands.run('reload', null, 'SIGUSR2')
  process.on('exit', () => controlSocket.close())
  process.on('disconnect', () => stopAsOrphan('pm2 disconnected'))
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    // Other errors, such as a full disk, do not stop the service.
    if (code === 'EPIPE' || code === 'ECONNRESET') stopAsOrphan('output closed')
  })

  await controlPorts.open()
  await controlSocket.open()
  for (const { label, port } of config.ports) {
    const handle = inherited.data.get(label)
    const bound = handle && { handle, isInherited: true }
    sockets.set(label, bound ?? (await bind({ host: config.host, port }, `data port ${label}`)))
  }
  fleet.start()
  connectPm2(commands)
  for await (const _ of setInterval(config.certificates.readEveryMs, undefined, { ref: false })) {
    const before = desired.current()
    await certificates.refresh()
    await ticketKeys.refresh()
    if (desired.current() !== before) await fleet.publish()
  }
}

// Without a handler, each of these signals would end the process at once.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => onSignal.stop(signal))
process.on('SIGUSR2', () => onSignal.reload())

try {
  await supervise()
} catch (error) {
  const exitCode = exitCodeOf(error)
  if (exitCode === undefined) throw error
  exit(exitCode, reasonOf(error))
}
