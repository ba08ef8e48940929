// A control port whose handler fails in a way that it does not expect.
import { join } from 'node:path'
import test from 'ava'
import { createLog } from '../../../src/core/log.ts'
import { createCheckers } from '../../../src/supervisor/control-ports/checkers.ts'
import { createControlPorts } from '../../../src/supervisor/control-ports/control-ports.ts'
import { createDesiredState } from '../../../src/supervisor/desired-state.ts'
import { createMaintenance } from '../../../src/supervisor/maintenance.ts'
import { folder } from '../../support/folder.ts'
import { claimPorts } from '../../support/ports.ts'

test('control ports: an unexpected error is logged, and the response has status 500', async t => {
  const { first: port, release } = await claimPorts()
  t.teardown(release)
  const lines: string[] = []
  const log = Object.assign(createLog('silent', 'supervisor'), {
    error: ({ reason }: { reason: unknown }, text: string) => lines.push(`${text}: ${reason}`),
  })
  const config = {
    ports: [{ label: 'http', port, protocol: 'http' as const }],
    control: { host: '127.0.0.1', offset: 1 as const, socket: '' },
    drain: { mode: '404' as const, delayMs: 0, idleMs: 0, quietMs: 0, deadlineMs: 0 },
    stateFile: join(folder(t), 'state.json'),
  }
  const fail = () => {
    throw new Error('unforeseen')
  }
  const maintenance = createMaintenance(config, log, createDesiredState('silent', {}))
  const controlPorts = createControlPorts({
    config,
    log,
    checkers: createCheckers(),
    isKnownHost: () => true,
    health: fail,
    documents: { '/status': fail },
    maintenance,
    inherited: new Map(),
  })
  await controlPorts.open()
  t.teardown(() => {
    maintenance.drain('http', 'refuse', 'the end of the test')
    return controlPorts.sync('http')
  })
  for (const path of ['/healthcheck/http', '/readyz', '/status']) {
    const response = await fetch(`http://127.0.0.1:${port + 1}${path}`)
    t.is(response.status, 500)
    t.like(await response.json(), { meta: { code: 'internal_error', message: 'Error: unforeseen' } })
    t.is(lines.pop(), 'internal_error: Error: unforeseen')
  }
})
