// A process id from a file: anything else would signal other processes.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { readPid } from '../../../src/cli/pm2/servers.ts'
import { folder } from '../../support/folder.ts'

test('pid file: only a positive number is a process id', async t => {
  const file = join(folder(t), 'mysql.pid')
  for (const text of ['', '\n', '0', '-1', '12 34', 'x', '1e3']) {
    writeFileSync(file, text)
    await t.throwsAsync(readPid(file), { message: /mysql.pid has no process id/ }, JSON.stringify(text))
  }
  for (const text of ['1234', '1234\n']) {
    writeFileSync(file, text)
    t.is(await readPid(file), 1234)
  }
})
