// An operator of a service under test: sends commands in pm2's format, health checks and status requests.
import { on } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import type http from 'node:http'
import type { PortStatus, Status } from '../../src/supervisor/control-ports/status.ts'
import { createClient } from './http.ts'
import type { Service } from './service.ts'
import { atSteadyInterval } from './steady-interval.ts'
import { until } from './until.ts'

export interface Reply extends Partial<PortStatus>, Partial<Status> {
  command: string
  argument: string | null
  error?: string
  ended?: 'drained' | 'deadline'
  waiting_for?: string[]
  requests_per_second?: number
  addresses?: string[]
  path?: string
}

/** The pause between two requests of an operator that waits. Each costs a new connection and a response with the whole status. */
const POLL_MS = 30

interface ReplyMessage {
  type: 'axm:reply'
  data: { action_name: string; return: Reply }
}

function isReply(message: unknown): message is ReplyMessage {
  return typeof message === 'object' && message !== null && 'type' in message && message.type === 'axm:reply'
}

export interface Check {
  status: number
  code: string | undefined
  headers: http.IncomingHttpHeaders
  text: string
}

/** Sends a request to a control port on a new connection. `refused`: the connection or the request failed. */
export async function check(
  port: number,
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: http.OutgoingHttpHeaders } = {},
): Promise<Check | 'refused'> {
  const client = createClient(`http://127.0.0.1:${port}`, false)
  const answer = await client.send(method, path, headers).catch(() => undefined)
  if (answer === undefined) return 'refused'
  const { status, text } = answer
  return { status, code: text === '' ? undefined : answer.body.meta?.code, headers: answer.headers, text }
}

export function createOperator(service: Pick<Service, 'supervisor' | 'port'>) {
  const { supervisor } = service
  const controlPort = (label: string) => service.port(label) + 1

  return {
    controlPort,

    /** Runs a command and waits for the reply that echoes it. */
    async run(command: string, argument?: string): Promise<Reply> {
      const replies = on(supervisor, 'message')
      supervisor.send(argument === undefined ? command : { msg: command, opts: argument, name: 'users-api' })
      for await (const [message] of replies) {
        if (!isReply(message)) continue
        const reply = message.data.return
        if (reply.command === command && reply.argument === (argument ?? null)) return reply
      }
      throw new Error('the supervisor exited before it replied')
    },

    /** The status code of the health check of `label`, on its own control port or on that of `at`. */
    async health(label: string, at = label): Promise<number | 'refused'> {
      const answer = await check(controlPort(at), `/healthcheck/${label}`)
      return answer === 'refused' ? answer : answer.status
    },

    /**
     * Checks the health of `label` at a steady interval until the service regards this client as a checker: on a busy machine,
     * three checks can be too uneven. It stays one for three intervals.
     */
    async becomeChecker(label: string, at = label, everyMs = 2000): Promise<void> {
      await atSteadyInterval(everyMs, async () => {
        await this.health(label, at)
        const { ports } = await this.status(at)
        return ports[label]?.checkers[0] !== undefined
      })
    },

    async status(at = 'http'): Promise<Status> {
      const answer = await check(controlPort(at), '/status')
      if (answer === 'refused') throw new Error(`the control port of ${at} is closed`)
      return JSON.parse(answer.text)
    },

    /** Polls the status until it fulfils `condition`. @throws Error after `withinMs` milliseconds */
    async until(condition: (status: Status) => boolean, withinMs?: number): Promise<Status> {
      let status: Status | undefined
      const reached = async () => {
        status = await this.status()
        return condition(status) && status
      }
      return until(reached, {
        withinMs,
        everyMs: POLL_MS,
        describe: () => `${condition}\n${JSON.stringify(status)}`,
      })
    },

    /** Polls the health of `label` until its status code is `status`. @throws Error after a minute */
    async untilHealth(label: string, status: number): Promise<void> {
      await until(async () => (await this.health(label)) === status, { everyMs: POLL_MS })
    },
  }
}

/** Whether a process is running. A zombie counts as exited. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch (error) {
    // Without /proc, only the signal tells whether the process exists.
    return error instanceof Error && 'code' in error && error.code === 'ENOENT' && !existsSync('/proc')
  }
}

export type Operator = ReturnType<typeof createOperator>
