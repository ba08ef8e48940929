// The lock of `npm start`, in a process of its own.
import { platform } from 'node:os'
import test from 'ava'
import { evalArgs, moduleOf } from '../../support/child-code.ts'
import { runToEnd } from '../../support/run-to-end.ts'

const onLinux = platform() === 'linux' ? test : test.skip

onLinux('lockStart: an error of the system is no other start', async t => {
  const code = `
    import { openSync } from 'node:fs'
    import { lockStart } from '${moduleOf('cli/start-lock')}'
    // The message needs the standard streams.
    console.log()
    console.error()
    try { for (;;) openSync('/dev/null') } catch {}
    await lockStart().catch(error => console.log(error.message))`
  const { stdout } = await runToEnd('sh', [
    '-c',
    'ulimit -n 1000; exec "$0" "$@"',
    process.execPath,
    ...evalArgs,
    code,
  ])
  t.is(stdout.trim(), 'npm start cannot take its lock: EMFILE')
})
