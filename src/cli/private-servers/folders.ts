// Where the private servers keep their sockets: in folders of our own that nobody else may enter.
import { createHash } from 'node:crypto'
import { lstat, mkdir, mkdtemp, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** What a socket's path may be long, in bytes, on every system that we run on (macOS has 104 with the final NUL). */
const MAX_SOCKET_PATH = 103
const MAX_SOCKET_NAME = '/mysql.sock.lock'.length

function cannotWrite(folder: string, { code, message }: NodeJS.ErrnoException): never {
  throw new Error(`cannot write in ${folder} (${code ?? message}): give this user the folder`)
}

/**
 * Makes a folder, if need be, and tries whether files can be made in it.
 * @throws Error that says what to do
 */
export async function assertWritable(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await rmdir(await mkdtemp(join(folder, 'writable-')))
  } catch (error) {
    if (error instanceof Error) cannotWrite(folder, error)
    throw error
  }
}

/**
 * Makes a folder, if need be, that only its owner can enter.
 * @throws Error if somebody else owns it or may enter it, as could be in a temporary folder that all users share
 */
async function privateFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o700 }).catch(error => cannotWrite(dirname(path), error))
  const found = await lstat(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error(`${path} must be a folder that belongs to this user, with mode 700`)
  return path
}

/**
 * The folder for the sockets of the servers that live in `base`; elsewhere if their paths would be too long there.
 * The same `base` always has the same one.
 */
export async function socketFolder(base: string): Promise<string> {
  const inside = join(base, 'run')
  if (Buffer.byteLength(inside) + MAX_SOCKET_NAME <= MAX_SOCKET_PATH) return privateFolder(inside)
  const name = createHash('sha256').update(base).digest('hex').slice(0, 12)
  return privateFolder(join(tmpdir(), `users-api-${name}`))
}
