// What systemd asks of a process in its environment.
import test from 'ava'
import { countListenFds, readSystemdRequest } from '../../../src/config/systemd.ts'

test('systemd: the watchdog applies only to the process that it names', t => {
  t.is(readSystemdRequest({ WATCHDOG_USEC: '30000000' }), undefined)
  const NOTIFY_SOCKET = '/run/notify'
  const cases: [NodeJS.ProcessEnv, number | undefined][] = [
    [{}, undefined],
    [{ WATCHDOG_USEC: '30000000' }, 30_000],
    [{ WATCHDOG_USEC: '30000000', WATCHDOG_PID: `${process.pid}` }, 30_000],
    [{ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '1' }, undefined],
    [{ WATCHDOG_USEC: '' }, undefined],
  ]
  for (const [env, watchdogMs] of cases)
    t.deepEqual(readSystemdRequest({ NOTIFY_SOCKET, ...env }), { watchdogMs }, JSON.stringify(env))
})

test('systemd: sockets are only for the process that LISTEN_PID names', t => {
  t.is(countListenFds({}), 0)
  t.is(countListenFds({ LISTEN_FDS: '2' }), 0)
  t.is(countListenFds({ LISTEN_FDS: '2', LISTEN_PID: '1' }), 0)
  t.is(countListenFds({ LISTEN_FDS: '2', LISTEN_PID: `${process.pid}` }), 2)
  t.is(countListenFds({ LISTEN_FDS: '', LISTEN_PID: `${process.pid}` }), 0)
})
