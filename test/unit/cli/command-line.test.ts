// The frame of the commands, in a process of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import test from 'ava'
import { evalArgs, moduleOf } from '../../support/child-code.ts'

test('runCommand: the command goes on when the reader of its output has ended', async t => {
  const code = `
    import { setImmediate } from 'node:timers/promises'
    import { print, runCommand } from '${moduleOf('cli/command-line')}'
    const command = async () => {
      for (let line = 0; line < 3; line++) {
        print('step')
        console.error('remark')
        await setImmediate()
      }
      return 3
    }
    process.stdin.resume().on('end', async () => process.exit(await runCommand(command)))`
  const child = spawn(process.execPath, [...evalArgs, code])
  child.stdout.destroy()
  child.stderr.destroy()
  await Promise.all([once(child.stdout, 'close'), once(child.stderr, 'close')])
  child.stdin.end()
  t.deepEqual(await once(child, 'exit'), [3, null])
})
