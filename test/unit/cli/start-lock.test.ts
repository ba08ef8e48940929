// The lock of `npm start`, in a process of its own.
import { platform } from 'node:os'
import test from 'ava'
import { runToEnd } from '../../support/run-to-end.ts'

const onLinux = platform() === 'linux' ? test : test.skip

onLinux('lockStart: an error of the system is no other start', async t => {
  const module = new URL('../../../src/cli/start-lock.ts', import.meta.url)
  const code = `
    import { openSync } from 'node:fs'
    import { lockStart } from '${module}'
    // The message needs the standard streams.
    console.log()
    console.error()
    try { for (;;) openSync('/dev/null') } catch {}
    await lockStart().catch(error => console.log(error.message))`
  const { stdout } = await runToEnd('sh', [
    '-c',
    'ulimit -n 1000; exec "$0" --import=tsx --input-type=module -e "$1"',
    process.execPath,
    code,
  ])
  t.is(stdout.trim(), 'npm start cannot take its lock: EMFILE')
})
