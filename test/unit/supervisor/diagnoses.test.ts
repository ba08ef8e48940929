// What a snapshot leaves behind that cannot be written.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import v8 from 'node:v8'
import test from 'ava'
import { createDiagnoses } from '../../../src/supervisor/diagnoses.ts'

const folder = mkdtempSync(join(tmpdir(), 'users-api-diagnoses-'))
const { writeHeapSnapshot } = v8
test.after.always(() => {
  v8.writeHeapSnapshot = writeHeapSnapshot
  syncBuiltinESMExports()
  rmSync(folder, { recursive: true })
})

test('heap-snapshot: of one that does not fit on the disk, no part is left', async t => {
  v8.writeHeapSnapshot = (file = '') => {
    writeFileSync(file, 'a part')
    throw new Error('ENOSPC: no space left on device')
  }
  syncBuiltinESMExports()
  const diagnoses = createDiagnoses(folder, () => {})
  await t.throwsAsync(diagnoses.write('heap-snapshot', `${process.pid}`), { message: /ENOSPC/ })
  t.deepEqual(readdirSync(folder), [])
})
