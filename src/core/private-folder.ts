// Checks that a folder keeps other users out.
import { lstat } from 'node:fs/promises'

/** @throws Error if `path` is no folder, or if another user owns it or can enter it */
export async function assertPrivate(path: string): Promise<void> {
  const found = await lstat(path)
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error(`${path} must be a folder that belongs to this user and has mode 700`)
}
