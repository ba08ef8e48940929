// A temporary folder for one test.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExecutionContext } from 'ava'

/** Creates a folder that only this user can enter. It is removed after the test. */
export function folder(t: ExecutionContext): string {
  const path = mkdtempSync(join(tmpdir(), 'users-api-test-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}
