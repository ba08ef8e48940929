// Writes a file atomically: after a crash or a power failure it has the old or the new content.
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { reasonOf } from './error-reason.ts'

/**
 * Replaces the content of `file` (mode 0600) and creates its folder if needed (mode 0700). Returns after
 * fsync, so the caller can confirm the change to an operator.
 * @throws Error that names the file or its folder, also for a full disk, whose own error names neither. No temporary file is left
 */
export function writeAtomically(file: string, text: string): void {
  const folder = dirname(file)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const temporary = `${file}.${process.pid}.new`
  try {
    writeFileSync(temporary, text, { mode: 0o600, flush: true })
    renameSync(temporary, file)
    const directory = openSync(folder, 'r')
    try {
      fsyncSync(directory)
    } finally {
      closeSync(directory)
    }
  } catch (error) {
    rmSync(temporary, { force: true })
    throw new Error(`${file} cannot be written: ${reasonOf(error)}`)
  }
}
