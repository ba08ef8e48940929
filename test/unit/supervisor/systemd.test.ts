// The watchdog of systemd.
import test from 'ava'
import { createLog } from '../../../src/core/log.ts'
import { createSystemd } from '../../../src/supervisor/systemd.ts'

test('watchdog: it is fed twice within its time', t => {
  const { setInterval } = globalThis
  t.teardown(() => Object.assign(globalThis, { setInterval }))
  const intervalsMs: number[] = []
  const record = (_: unknown, ms: number) => {
    intervalsMs.push(ms)
    return { unref() {} }
  }
  Object.assign(globalThis, { setInterval: record })
  const { ready } = createSystemd({ watchdogMs: 400 }, createLog('silent', 'supervisor'))
  for (let workers = 0; workers < 2; workers++) ready()
  t.deepEqual(intervalsMs, [200])
})
