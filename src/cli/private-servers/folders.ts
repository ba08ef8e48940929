// The folders of the private servers' sockets. Only their owner can enter them.
import { hash } from 'node:crypto'
import { lstat, mkdir, mkdtemp, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { MAX_SOCKET_PATH } from '../../config/schema.ts'

const MAX_SOCKET_NAME = '/mysql.sock.lock'.length

function cannotWrite(folder: string, { code, message }: NodeJS.ErrnoException): never {
  throw new Error(
    `cannot write to ${folder} (${code ?? message}): make it a folder that this user can write to`,
  )
}

/**
 * Creates a folder if it does not exist, and checks that files can be created in it.
 * @throws Error whose message says what to do
 */
export async function assertWritable(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
    .then(() => mkdtemp(join(folder, 'writable-')))
    .then(rmdir)
    .catch((error: Error) => cannotWrite(folder, error))
}

/**
 * Creates a folder that only its owner can enter, if it does not exist.
 * @throws Error if another user owns it or can enter it, which is possible in a shared temporary folder
 */
async function privateFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o700 }).catch((error: Error) =>
    cannotWrite(dirname(path), error),
  )
  const found = await lstat(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error(`${path} must be a folder that belongs to this user and has mode 700`)
  return path
}

/**
 * The folder for the sockets of the servers in `base`. It is inside `base`, or in the temporary folder if the
 * sockets' paths would be too long. The same `base` always has the same socket folder.
 */
export async function socketFolder(base: string): Promise<string> {
  const inside = join(base, 'run')
  if (Buffer.byteLength(inside) + MAX_SOCKET_NAME <= MAX_SOCKET_PATH) return privateFolder(inside)
  const name = hash('sha256', base, 'hex').slice(0, 12)
  return privateFolder(join(tmpdir(), `users-api-${name}`))
}
