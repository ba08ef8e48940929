// What operators say, and what they are answered: each command is run, answered with an object, and logged.
import { setTimeout as delay } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import { type LogLevel, logLevels } from '../config/schema.ts'
import type { Log } from '../core/log.ts'
import type { Cluster } from './cluster/processes.ts'
import type { PortStatus, Status } from './control/status.ts'
import type { Maintenance } from './maintenance.ts'
import type { DrainMode } from './port-states.ts'

const POLL_MS = 100

export interface CommandOptions {
  readonly config: Pick<Config, 'drain'>
  readonly log: Log
  readonly maintenance: Maintenance
  readonly cluster: Cluster
  /** Has the control port be as the maintenance wants it. @returns why it is still closed; that is tried again */
  sync(label: string): Promise<string | undefined>
  status(): Status
  /** @returns what each certificate is now, by label. @throws Error about a bad one: the old ones stay */
  reloadCertificates(): Promise<object>
  /** Of the supervisor and of every worker, also of those to come. */
  setLogLevel(level: LogLevel): void
}

/** Either the result's fields, or `error`. */
export type Reply = { readonly command: string; readonly argument: string | null } & Readonly<
  Record<string, unknown>
>

/** The command cannot be appliedRevision, and nothing has changed; the message says what is possible. */
class Refusal extends Error {}

export const commandNames = [
  'drain',
  'wait',
  'resume',
  'status',
  'reload',
  'reload-certificates',
  'log-level',
] as const
type CommandName = (typeof commandNames)[number]

/** Whether the command is about something that its argument names: a port, a level. */
export function takesTarget(name: CommandName): boolean {
  return name === 'drain' || name === 'wait' || name === 'resume' || name === 'log-level'
}

const isCommandName = (name: string): name is CommandName => commandNames.some(one => one === name)
const isLogLevel = (level: string): level is LogLevel => logLevels.some(one => one === level)
const isDrainMode = (mode: string): mode is DrainMode => mode === '404' || mode === 'refuse'

/** `http:refuse by=ada` → target `http:refuse`, by `ada`: pm2 passes one word, and says nothing of who typed it. */
function parseArgument(argument: string): { target: string; by: string | undefined } {
  const [, target = '', by] = /^(.*?)(?:(?:^|\s+)by=(\S+))?$/s.exec(argument.trim()) ?? []
  return { target, by }
}

export type Commands = ReturnType<typeof createCommands>

export function createCommands(options: CommandOptions) {
  const { config, log, maintenance, cluster } = options

  function portOf(label: string): PortStatus {
    const port = maintenance.labels.includes(label) ? options.status().ports[label] : undefined
    if (port === undefined)
      throw new Refusal(
        `there is no port ${JSON.stringify(label)}; the ports are ${maintenance.labels.join(', ')}`,
      )
    return port
  }

  async function drain(target: string, by: string): Promise<object> {
    const [label = '', mode = config.drain.mode, ...rest] = target.split(':')
    portOf(label)
    if (!isDrainMode(mode) || rest.length > 0)
      throw new Refusal(`there is no such mode; possible are ${label}, ${label}:404 and ${label}:refuse`)
    return change(label, () => maintenance.drain(label, mode, by))
  }

  function resume(label: string, by: string): Promise<object> {
    portOf(label)
    return change(label, () => maintenance.resume(label, by))
  }

  /** What is so already succeeds, too: scripts may repeat themselves. */
  async function change(label: string, act: () => void): Promise<object> {
    const before = maintenance.of(label)
    act()
    const changed = maintenance.of(label) !== before
    const closed = await options.sync(label)
    await cluster.refresh()
    const port = portOf(label)
    if (closed !== undefined)
      throw new Error(
        `${label} is ${port.state}, but its control port stays closed, and is tried again every second: ${closed}`,
      )
    return { changed, ...port }
  }

  /** The checkers that do not know of the maintenance yet. */
  function unaware(label: string, { mode, since, checkers }: PortStatus): string[] {
    // Who only connects cannot be seen to notice: it is given the drain delay.
    if (mode === 'refuse') return maintenance.delayLeftMs(label) > 0 ? ['those who only connect'] : []
    return checkers.filter(({ status, seen }) => status === 200 || seen < since).map(({ address }) => address)
  }

  async function wait(label: string): Promise<object> {
    for (;;) {
      await cluster.refresh()
      const port = portOf(label)
      if (port.mode === null) throw new Refusal(`${label} is serving; possible is: drain ${label}`)
      const waitingFor = unaware(label, port)
      if (port.state === 'drained' && waitingFor.length === 0) return { ended: 'drained', ...port }
      if (Date.now() >= Date.parse(port.since) + config.drain.deadlineMs)
        return { ended: 'deadline', waiting_for: waitingFor, ...port }
      await delay(POLL_MS)
    }
  }

  async function reload(): Promise<object> {
    if (cluster.isReloading()) throw new Refusal('a reload is running; possible is: status')
    const outcome = await cluster.reload()
    if (outcome.state === 'failed')
      throw new Refusal(`the new code does not come up, the old workers stay: ${outcome.reason}`)
    return { workers: options.status().workers }
  }

  function setLogLevel(level: string): object {
    if (!isLogLevel(level))
      throw new Refusal(`there is no level ${JSON.stringify(level)}; the levels are ${logLevels.join(', ')}`)
    options.setLogLevel(level)
    return { level }
  }

  async function status(): Promise<object> {
    await cluster.refresh()
    return options.status()
  }

  function runNamed(name: CommandName, target: string, by: string): Promise<object> | object {
    if (name === 'status') return status()
    if (cluster.isStopping()) throw new Refusal('the service stops; possible is: status')
    switch (name) {
      case 'drain':
        return drain(target, by)
      case 'wait':
        return wait(target)
      case 'resume':
        return resume(target, by)
      case 'reload':
        return reload()
      case 'reload-certificates':
        return options.reloadCertificates()
      case 'log-level':
        return setLogLevel(target)
    }
  }

  return {
    /**
     * Never rejects: what goes wrong stands in the reply as `error`.
     * @param via where the command came from; the argument can name somebody instead
     */
    async run(command: string, argument: string | null, via: string): Promise<Reply> {
      const { target, by = via } = parseArgument(argument ?? '')
      try {
        if (!isCommandName(command))
          throw new Refusal(`there is no command ${command}; the commands are ${commandNames.join(', ')}`)
        if (!takesTarget(command) && target !== '') throw new Refusal(`${command} takes no argument`)
        const result = await runNamed(command, target, by)
        log.info({ command, argument, by, outcome: 'done' }, 'command')
        return { command, argument, ...result }
      } catch (failure) {
        const error = failure instanceof Error ? failure.message : String(failure)
        log.warn({ command, argument, by, outcome: error }, 'command')
        return { command, argument, error }
      }
    },
  }
}
