// The operators' commands: runs each one, replies with an object and logs the outcome.
import { setTimeout as delay } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import { drainModes, logLevels } from '../config/schema.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import type { Certificates } from './certificates.ts'
import { CommandError, type CommandName, takesArgument } from './command-names.ts'
import type { ReplyTo } from './command-replies.ts'
import type { ControlPorts } from './control-ports/control-ports.ts'
import type { PortStatus, StatusReader } from './control-ports/status.ts'
import type { DesiredStateStore } from './desired-state.ts'
import type { Diagnoses } from './diagnoses.ts'
import type { Fleet } from './fleet/fleet.ts'
import type { Maintenance } from './maintenance.ts'
import { hasNoticed } from './port-states.ts'

const POLL_MS = 100

interface CommandOptions {
  readonly config: Pick<Config, 'drain' | 'reload'>
  /** The command log-level sets its level. */
  readonly log: Log
  readonly desired: DesiredStateStore
  readonly maintenance: Maintenance
  readonly fleet: Fleet
  readonly controlPorts: ControlPorts
  readonly certificates: Certificates
  readonly status: StatusReader
  readonly diagnoses: Diagnoses
}

/** The fields of the result, or `error`. */
type Reply = { readonly command: string; readonly argument: string | null } & Readonly<
  Record<string, unknown>
>

interface CommandResult {
  /** `rejected`: nothing has changed. `failed`: the reply's `error` says how far the command came. */
  readonly outcome: 'done' | 'rejected' | 'failed'
  readonly reply: Reply
}

export type Commands = ReturnType<typeof createCommands>

export function createCommands(options: CommandOptions) {
  const { config, log, desired, maintenance, fleet, controlPorts } = options

  function portOf(label: string): PortStatus {
    const port = maintenance.labels.includes(label) ? options.status.current().ports[label] : undefined
    if (port === undefined)
      throw new CommandError(
        `unknown port ${JSON.stringify(label)}; the ports are ${maintenance.labels.join(', ')}`,
      )
    return port
  }

  async function drain(target: string, by: string): Promise<ReplyTo<'drain'>> {
    const [label = '', name = config.drain.mode, ...rest] = target.split(':')
    portOf(label)
    const mode = drainModes.find(one => one === name)
    if (mode === undefined || rest.length > 0)
      throw new CommandError(`unknown mode; use ${label}, ${label}:404 or ${label}:refuse`)
    const obstacle = mode === 'refuse' ? controlPorts.whyNotRefuse(label) : undefined
    if (obstacle !== undefined) throw new CommandError(obstacle)
    return change(label, () => maintenance.drain(label, mode, by))
  }

  function resume(label: string, by: string): Promise<ReplyTo<'resume'>> {
    portOf(label)
    return change(label, () => maintenance.resume(label, by))
  }

  /** Idempotent: if the port is already in the requested state, the command succeeds with `changed: false`. */
  async function change(label: string, apply: () => void): Promise<ReplyTo<'drain'>> {
    const before = maintenance.get(label)
    apply()
    const changed = maintenance.get(label) !== before
    const [controlPortError] = await Promise.all([controlPorts.sync(label), fleet.publish()])
    const port = portOf(label)
    if (controlPortError !== undefined)
      throw new Error(
        `${label} is ${port.state}, but its control port is closed; the service tries to open it every second: ${controlPortError}`,
      )
    return { changed, ...port }
  }

  /** Returns the checkers that have not noticed the maintenance yet. */
  function pendingCheckers(label: string, { mode, checkers }: PortStatus): string[] {
    // Checks that only open a TCP connection are not recorded. They have the drain delay to see that the port is closed.
    const tcpChecks = mode === 'refuse' && maintenance.remainingDelayMs(label) > 0 ? ['TCP checks'] : []
    // With `refuse`, checkers that use this control port are soon forgotten; those that use another one see the maintenance there.
    return [...tcpChecks, ...checkers.filter(checker => !hasNoticed(checker)).map(({ address }) => address)]
  }

  async function wait(label: string): Promise<ReplyTo<'wait'>> {
    for (;;) {
      await fleet.publish()
      const port = portOf(label)
      if (port.mode === null) throw new CommandError(`${label} is serving; run drain ${label} first`)
      const waitingFor = pendingCheckers(label, port)
      if (port.state === 'drained' && waitingFor.length === 0) return { ended: 'drained', ...port }
      if (performance.now() >= maintenance.get(label).modeSinceMs + config.drain.deadlineMs) {
        const { perSecond, addresses } = options.status.arriving(label)
        const arriving = { requests_per_second: Math.round(10 * perSecond) / 10, addresses }
        return { ended: 'deadline', waiting_for: waitingFor, ...arriving, ...port }
      }
      await delay(POLL_MS)
    }
  }

  async function reload(): Promise<ReplyTo<'reload'>> {
    if (fleet.isReloading()) throw new CommandError('a reload is already running; wait until it has ended')
    // A worker that has failed an earlier reload can still be retiring.
    const staying = () =>
      fleet
        .workers()
        .filter(({ state }) => state !== 'retiring')
        .map(({ pid }) => pid)
    const old = staying()
    const outcome = await fleet.reload(config.reload.watchMs)
    if (outcome.state === 'failed') {
      if (fleet.isStopping()) throw new Error(`the reload failed: ${outcome.reason}`)
      const left = staying().filter(pid => old.includes(pid)).length
      if (left === old.length)
        throw new CommandError(`the reload failed, the old workers stay: ${outcome.reason}`)
      throw new Error(
        `the reload failed when ${left} of ${old.length} old workers were left: ${outcome.reason}`,
      )
    }
    return { workers: options.status.current().workers }
  }

  async function reloadCertificates(): Promise<ReplyTo<'reload-certificates'>> {
    try {
      return await options.certificates.load()
    } finally {
      // Also after an error: other ports may have new certificates.
      await fleet.publish()
    }
  }

  /** Sets the level of the supervisor and of all present and future workers. */
  async function setLogLevel(name: string): Promise<ReplyTo<'log-level'>> {
    const level = logLevels.find(one => one === name)
    if (level === undefined)
      throw new CommandError(
        `unknown log level ${JSON.stringify(name)}; the levels are ${logLevels.join(', ')}`,
      )
    log.level = level
    desired.set({ logLevel: level })
    await fleet.publish()
    return { level }
  }

  async function status(): Promise<ReplyTo<'status'>> {
    await fleet.publish()
    return options.status.current()
  }

  const runners: { readonly [Name in CommandName]: (target: string, by: string) => Promise<ReplyTo<Name>> } =
    {
      drain,
      wait,
      resume,
      status,
      reload,
      'reload-certificates': reloadCertificates,
      'log-level': setLogLevel,
      'heap-snapshot': argument => options.diagnoses.write('heap-snapshot', argument),
      'cpu-profile': argument => options.diagnoses.write('cpu-profile', argument),
    }

  return {
    /**
     * Runs a command. Never rejects: a failure is reported in the reply's `error`.
     * @param by the operator or the origin of the command
     */
    async run(command: CommandName, argument: string | null, by: string): Promise<CommandResult> {
      const target = argument ?? ''
      try {
        if (!takesArgument(command) && target !== '') throw new CommandError(`${command} takes no argument`)
        if (fleet.isStopping() && command !== 'status')
          throw new CommandError('the service is stopping; only status is available')
        const result = await runners[command](target, by)
        log.info({ command, argument, by, outcome: 'done' }, 'command')
        return { outcome: 'done', reply: { command, argument, ...result } }
      } catch (failure) {
        const error = reasonOf(failure)
        log.warn({ command, argument, by, outcome: error }, 'command')
        const outcome = failure instanceof CommandError ? 'rejected' : 'failed'
        return { outcome, reply: { command, argument, error } }
      }
    },
  }
}
