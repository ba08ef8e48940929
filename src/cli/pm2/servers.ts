// The private servers under pm2, beside the service.
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { socketFolder } from '../private-servers/folders.ts'
import { type PrivateServer, untilAnswers } from '../private-servers/server.ts'
import type { ProcessManager } from './process-manager.ts'

const kinds = ['redis', 'mysql'] as const
type Kind = (typeof kinds)[number]

const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 60_000

const appOf = (kind: Kind): string => `users-api-${kind}`

// pm2 stops with SIGINT, which MySQL ignores: this passes it on as SIGTERM, and stays until the server has ended.
const untilStopped = `
trap 'kill "$server"' INT TERM
"$@" &
server=$!
while wait "$server"; code=$?; kill -0 "$server" 2>/dev/null; do :; done
exit $code`

/**
 * Has pm2 run a server, unless it does already, and waits until it answers.
 * @param base the folder that the server was prepared in
 * @throws Error with its last words where it does not come up
 */
export async function startServer(
  manager: ProcessManager,
  base: string,
  kind: Kind,
  server: PrivateServer,
): Promise<void> {
  const app = appOf(kind)
  if ((await manager.find(app))?.isRunning !== true) {
    await stopLeftover(base, kind)
    await manager.start({
      name: app,
      script: '/bin/sh',
      args: ['-c', untilStopped, app, server.program, ...server.args],
      interpreter: 'none',
      exec_mode: 'fork',
      merge_logs: true,
      kill_timeout: STOP_TIMEOUT_MS,
      exp_backoff_restart_delay: 250,
    })
  }
  await untilAnswers(server, START_TIMEOUT_MS, () => manager.assertUp(app, server.title))
}

/** @returns how many servers of this `base` ran */
export async function stopServers(manager: ProcessManager, base: string): Promise<number> {
  let stopped = 0
  for (const kind of kinds) {
    const wasThere = await manager.remove(appOf(kind))
    if ((await stopLeftover(base, kind)) || wasThere) stopped++
  }
  return stopped
}

/** Ends a server that runs although pm2 does not know it, which is so when pm2's daemon was killed. */
async function stopLeftover(base: string, kind: Kind): Promise<boolean> {
  const folder = await socketFolder(base)
  const socketPath = join(folder, `${kind}.sock`)
  if (!(await accepts(socketPath))) {
    // MySQL would take whoever has a dead server's process number for that server.
    await rm(`${socketPath}.lock`, { force: true })
    return false
  }
  // Who accepts wrote the file: the number is not some later process's.
  const pid = Number(await readFile(join(folder, `${kind}.pid`), 'utf8'))
  process.kill(pid, 'SIGTERM')
  const giveUpMs = performance.now() + STOP_TIMEOUT_MS
  while (isAlive(pid)) {
    if (performance.now() > giveUpMs) throw new Error(`process ${pid} (${kind}) does not end: end it by hand`)
    await delay(50)
  }
  return true
}

async function accepts(socketPath: string): Promise<boolean> {
  const socket = createConnection(socketPath)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
