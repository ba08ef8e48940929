// Where the private servers keep their sockets: in folders of our own that nobody else may enter.
import { createHash } from 'node:crypto'
import { lstat, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a socket's path may be long, in bytes, on every system that we run on (macOS has 104 with the final NUL). */
const LONGEST_SOCKET_PATH = 103
const LONGEST_SOCKET_NAME = '/mysql.sock.lock'.length

/**
 * Makes a folder, if need be, that only its owner can enter.
 * @throws Error if somebody else owns it or may enter it, as could be in a temporary folder that all users share
 */
async function privateFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o700 })
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
  if (Buffer.byteLength(inside) + LONGEST_SOCKET_NAME <= LONGEST_SOCKET_PATH) return privateFolder(inside)
  const name = createHash('sha256').update(base).digest('hex').slice(0, 12)
  return privateFolder(join(tmpdir(), `users-api-${name}`))
}
