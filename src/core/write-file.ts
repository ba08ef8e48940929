// A file that is there as a whole or not at all, whenever the power fails.
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Replaces `file`, readable by its owner alone, and makes a folder like that if there is none. It waits for the disk:
 * the caller's promise to an operator may stand on it.
 */
export function writeAtomically(file: string, text: string): void {
  const folder = dirname(file)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const temporary = `${file}.${process.pid}.new`
  const written = openSync(temporary, 'w', 0o600)
  try {
    writeFileSync(written, text)
    fsyncSync(written)
  } finally {
    closeSync(written)
  }
  renameSync(temporary, file)
  const directory = openSync(folder, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
