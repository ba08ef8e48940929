// Runs the private MySQL and Redis under pm2, next to the service.
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { retry } from '../../core/retry.ts'
import { isServed } from '../../supervisor/socket-file.ts'
import { socketFolder } from '../private-servers/folders.ts'
import { base, type ServerKind } from '../private-servers/missing-servers.ts'
import { type PrivateServer, waitUntilReady } from '../private-servers/server.ts'
import { assertUp, findApp, removeApp, startApp } from './process-manager.ts'

const kinds: readonly ServerKind[] = ['redis', 'mysql']

const STOP_TIMEOUT_MS = 60_000

const appOf = (kind: ServerKind): string => `users-api-${kind}`

// pm2 stops an app with SIGINT, which MySQL ignores. This wrapper sends SIGTERM instead and exits after the server.
const signalWrapper = `
trap 'kill "$server"' INT TERM
"$@" &
server=$!
while wait "$server"; code=$?; kill -0 "$server" 2>/dev/null; do :; done
exit $code`

/**
 * Starts a server under pm2, unless pm2 already runs it, and waits until it answers.
 * @throws Error with the end of its error log if it does not start
 */
export async function startServer(kind: ServerKind, server: PrivateServer): Promise<void> {
  const app = appOf(kind)
  if ((await findApp(app))?.isRunning !== true) {
    await stopOrphan(kind)
    await startApp({
      name: app,
      script: '/bin/sh',
      args: ['-c', signalWrapper, app, server.program, ...server.args],
      interpreter: 'none',
      exec_mode: 'fork',
      merge_logs: true,
      kill_timeout: STOP_TIMEOUT_MS,
      exp_backoff_restart_delay: 250,
    })
  }
  await waitUntilReady(server, () => assertUp(app, server.title))
}

/** Stops the servers. @returns whether one of them was running */
export async function stopServers(): Promise<boolean> {
  const wereRunning: boolean[] = []
  for (const kind of kinds) wereRunning.push(await removeApp(appOf(kind)), await stopOrphan(kind))
  return wereRunning.includes(true)
}

/**
 * Returns the process id that a server has written to `file`.
 * @throws Error if the file has none: 0 stands for the process group of this process (kill(2)), and a negative number for
 *   another one
 */
export async function readPid(file: string): Promise<number> {
  const text = await readFile(file, 'utf8')
  if (!/^[1-9]\d*\n?$/.test(text))
    throw new Error(`${file} has no process id, but its server runs: end the server by hand`)
  return Number(text)
}

/**
 * Stops a server that runs without pm2, as it does after pm2's daemon was killed.
 * @returns whether such a server was running
 */
async function stopOrphan(kind: ServerKind): Promise<boolean> {
  const folder = await socketFolder(base)
  const socketPath = join(folder, `${kind}.sock`)
  if (!(await isServed(socketPath))) {
    // A lock file that outlives its server contains a process id. If another process has that id now, MySQL would
    // take that process for a running server and refuse to start.
    await rm(`${socketPath}.lock`, { force: true })
    return false
  }
  // The server that accepts connections wrote this file, so the id cannot belong to a later process.
  const pid = await readPid(join(folder, `${kind}.pid`))
  process.kill(pid, 'SIGTERM')
  const assertExited = async () => {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    throw new Error(`process ${pid} (${kind}) did not exit after SIGTERM: end it by hand`)
  }
  await retry(assertExited, { timeoutMs: STOP_TIMEOUT_MS, pauseMs: () => 50 })
  return true
}
