// The messages of the supervisor to systemd, received on a socket that stands in for systemd's.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import test from 'ava'
import { findProgram } from '../../src/cli/private-servers/programs.ts'
import { folder } from '../support/folder.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const WATCHDOG_MS = 400

test('systemd: READY when a worker listens, WATCHDOG while the event loop runs, STOPPING at a stop', async t => {
  for (const name of ['socat', 'systemd-notify'])
    if (findProgram([name]) === undefined) {
      t.log(`NOT CHECKED: ${name} is not installed and npm test could not install it`)
      t.pass()
      return
    }
  const socket = join(folder(t), 'notify')
  const receiver = spawn('socat', ['-u', `UNIX-RECV:${socket}`, 'STDOUT'])
  t.teardown(() => receiver.kill())
  let received = ''
  receiver.stdout.setEncoding('utf8').on('data', text => (received += text))
  const untilReceived = async (pattern: RegExp) => {
    while (!pattern.test(received)) await once(receiver.stdout, 'data')
  }
  const count = (state: string) => received.split(`${state}=1`).length - 1
  await until(() => existsSync(socket))

  const service = await startService({
    env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: `${1000 * WATCHDOG_MS}` },
    workers: 2,
  })
  t.teardown(() => service.stop())
  await untilReceived(/READY=1.*(WATCHDOG=1.*){3}/s)
  t.is(count('READY'), 1)

  service.supervisor.kill('SIGSTOP')
  // Messages can be under way when the process stops. Once they have arrived, none comes for ten intervals.
  const silent = await until(
    async () => {
      const before = count('WATCHDOG')
      await delay(10 * WATCHDOG_MS)
      return count('WATCHDOG') === before && before
    },
    { describe: () => 'no WATCHDOG from a supervisor that is stopped' },
  )
  service.supervisor.kill('SIGCONT')
  while (count('WATCHDOG') < silent + 3) await once(receiver.stdout, 'data')

  t.is(await service.stop(), 0)
  await untilReceived(/STOPPING=1/)
  t.is(count('READY'), 1)
  t.is(count('STOPPING'), 1)
})
