// Listens on a Unix socket that only the user of this process can reach: the file has mode 0600, and a new folder 0700. A
// file that a dead process has left behind is replaced.
import { once } from 'node:events'
import { lstat, mkdir, realpath, rm, stat } from 'node:fs/promises'
import { connect, type Server } from 'node:net'
import { dirname } from 'node:path'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import { exitCodes, FatalError } from '../core/exit-codes.ts'
import { retry } from '../core/retry.ts'

/** As long as a port may be in use: a supervisor that is about to exit has its socket until then. */
const TIMEOUT_MS = 3000
const RETRY_MS = 100

class InUse extends Error {}

/** Whether a process listens on the socket. @throws Error if this user has no permission to connect */
export async function isServed(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    if (hasCode(error, 'ECONNREFUSED', 'ENOENT')) return false
    throw error
  } finally {
    socket.destroy()
  }
}

/** An existing folder keeps its mode. In one that others can write to, they could replace the socket by their own. */
async function prepareFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // The folder may be a symbolic link, for example to a volume with the service's data.
  const path = await realpath(folder)
  const { uid, mode } = await stat(path)
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
    throw new Error(`${path} must be a folder that belongs to this user, and that no other user can write to`)
}

async function removeStale(path: string): Promise<void> {
  if (await isServed(path)) throw new InUse('another supervisor listens on it')
  const found = await lstat(path).catch(() => undefined)
  if (found?.isSocket() === false) throw new Error('a file that is not a socket has this name')
  await rm(path, { force: true })
}

async function attempt(server: Server, path: string): Promise<void> {
  await removeStale(path)
  // The file must have its mode from the start. `listen` creates it before it returns.
  const mask = process.umask(0o177)
  try {
    server.listen(path)
  } finally {
    process.umask(mask)
  }
  await once(server, 'listening')
}

/**
 * Listens on `path`. Closing the server removes the file.
 * @throws FatalError with the reason if it cannot, for example because another process listens on it
 */
export async function listenOnSocketFile(server: Server, path: string): Promise<void> {
  try {
    await prepareFolder(dirname(path))
    await retry(() => attempt(server, path), {
      timeoutMs: TIMEOUT_MS,
      pauseMs: () => RETRY_MS,
      isTransient: error => error instanceof InUse,
    })
  } catch (error) {
    const exitCode = error instanceof InUse ? exitCodes.portTaken : exitCodes.configuration
    throw new FatalError(
      exitCode,
      `cannot listen on ${path} (control socket): ${reasonOf(error)}; correct that, or set control.socket to another path`,
    )
  }
}
