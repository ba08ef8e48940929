// A real HAProxy that runs config/haproxy.cfg in front of two services, A and B.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../../src/cli/private-servers/programs.ts'
import { configFile } from './config-tools.ts'
import { claimPorts } from './ports.ts'
import { haproxyProgram } from './programs.ts'
import { until } from './until.ts'

export type ServerName = 'A' | 'B'
type Backend = 'http' | 'https'

/** Returns HAProxy's state of each server: `http/A` → `UP`, `NOLB`, `DOWN`, or `UP 1/3` after a failed check. */
export async function readStates(socket: string): Promise<Map<string, string>> {
  const stats = net.connect(socket)
  let text = ''
  stats.setEncoding('utf8').on('data', chunk => (text += chunk))
  stats.end('show stat\n')
  await once(stats, 'close')
  const [header = '', ...rows] = text.trim().split('\n')
  const columns = header.split(',')
  return new Map(
    rows.map(row => {
      const cells = row.split(',')
      return [`${cells[0]}/${cells[1]}`, cells[columns.indexOf('status')] ?? '']
    }),
  )
}

/**
 * Starts HAProxy on two free ports.
 * @param port returns a service's data port; its control port is the next one
 * @param checkEvery interval of the health checks, in HAProxy's notation
 * @param edit changes the text of the configuration
 */
export async function startHaproxy(
  port: (server: ServerName, label: Backend) => number,
  checkEvery: string,
  edit = (text: string): string => text,
) {
  const claim = await claimPorts()
  const folder = await mkdtemp(join(tmpdir(), 'users-api-haproxy-'))
  const socket = join(folder, 'stats.sock')
  const file = join(folder, 'haproxy.cfg')
  await writeFile(file, edit(await readFile(configFile('haproxy.cfg'), 'utf8')))
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    LISTEN_HTTP: `127.0.0.1:${claim.first}`,
    LISTEN_HTTPS: `127.0.0.1:${claim.first + 1}`,
    CHECK_EVERY: checkEvery,
    STATS_SOCKET: socket,
  }
  for (const server of ['A', 'B'] as const) {
    env[`${server}_ADDRESS`] = '127.0.0.1'
    for (const label of ['http', 'https'] as const) {
      env[`${server}_${label.toUpperCase()}`] = String(port(server, label))
      env[`${server}_${label.toUpperCase()}_CHECK`] = String(port(server, label) + 1)
    }
  }
  const program = findProgram(haproxyProgram.names)
  if (program === undefined)
    throw new Error('HAProxy is not installed: run the tests with npm test, which installs it')
  const child = spawn(program, ['-db', '-f', file], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = once(child, 'exit')
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', text => (errors += text))

  const states = () => readStates(socket)

  return {
    url: `http://127.0.0.1:${claim.first}`,
    httpsUrl: `https://127.0.0.1:${claim.first + 1}`,
    states,
    /** Waits until HAProxy reports `state` for a server. @returns all states that were seen meanwhile */
    async until(backend: Backend, server: ServerName, state: string): Promise<Set<string>> {
      const seen = new Set<string>()
      const isReached = async () => {
        const now = (await states().catch(() => undefined))?.get(`${backend}/${server}`)
        if (now !== undefined) seen.add(now)
        if (child.exitCode !== null) throw new Error(`HAProxy exited: ${errors}`)
        return now === state
      }
      await until(isReached, { describe: () => `${backend}/${server} is ${state}, after ${[...seen]}` })
      return seen
    },
    async stop(): Promise<void> {
      child.kill('SIGTERM')
      await exited
      await claim.release()
      await rm(folder, { recursive: true })
    },
  }
}
