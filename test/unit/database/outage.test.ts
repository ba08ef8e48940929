// The probes of a database that is being closed.
import { once } from 'node:events'
import net, { type Socket } from 'node:net'
import test from 'ava'
import { loadConfig } from '../../../src/config/config.ts'
import { createLog } from '../../../src/core/log.ts'
import { createEpochs } from '../../../src/database/epochs.ts'
import { createOutage } from '../../../src/database/outage.ts'
import { listenOnFreePort } from '../../support/ports.ts'

test('probe: one that the end of the process interrupts is no outage', async t => {
  const server = net.createServer()
  const url = `mysql://me@127.0.0.1:${await listenOnFreePort(server)}/users`
  t.teardown(() => server.close())
  let warnings = 0
  const log = Object.assign(createLog('silent', 'worker'), { warn: () => warnings++ })
  const outage = createOutage({ ...(await loadConfig()).database, url }, createEpochs(), log)
  const connected = once(server, 'connection')
  const probe = outage.probe()
  t.is(outage.probe(), probe, 'requests that fail at once wait for one probe')
  const [socket]: Socket[] = await connected
  const closed = outage.close()
  socket?.destroy()
  await Promise.all([closed, probe])
  t.is(warnings, 0)
  t.is(outage.sinceMs(), undefined)
})
