// The checks and migrations of `npm start` before it starts the service.
import test from 'ava'
import { assertPortsFree, migrateWhenUp } from '../../../src/cli/preflight.ts'
import { claimPorts } from '../../support/ports.ts'

test('migrateWhenUp: an unreachable database is reported with its remedy after the timeout', async t => {
  const printed: string[] = []
  const url = 'mysql://me:secret@127.0.0.1:9/users'
  const error = await t.throwsAsync(migrateWhenUp(url, line => printed.push(line), { timeoutMs: 0 }))
  t.regex(
    error?.message ?? '',
    /^the database cannot be reached \(.*ECONNREFUSED.*\): start it, or correct DATABASE_URL$/,
  )
  t.deepEqual(printed, ['migrating the database'])
})

test('migrateWhenUp: retries add no process listeners', async t => {
  const listeners = () => process.listenerCount('exit') + process.stdout.listenerCount('error')
  const wait = async (timeoutMs: number): Promise<number> => {
    const before = listeners()
    await t.throwsAsync(migrateWhenUp('mysql://me:secret@127.0.0.1:9/users', () => {}, { timeoutMs }))
    return listeners() - before
  }
  t.is(await wait(600), await wait(0))
})

test('assertPortsFree: checks data ports and control ports and releases them', async t => {
  const claim = await claimPorts()
  t.teardown(claim.release)
  const settings = {
    host: '127.0.0.1',
    control: { host: '127.0.0.1', offset: 1 as const, socket: '' },
    ports: [{ label: 'one', port: claim.first, protocol: 'http' as const }],
  }
  await assertPortsFree(settings)
  await assertPortsFree(settings)
  await t.throwsAsync(assertPortsFree({ ...settings, host: '192.0.2.1' }), {
    message: /192\.0\.2\.1:.*\(data port one\): this machine has no such address; correct the host/,
  })
  await t.throwsAsync(assertPortsFree({ ...settings, host: 'no-such-host.invalid' }), {
    message: /no-such-host\.invalid:.*: no such host name is known; correct the host/,
  })
  await t.throwsAsync(assertPortsFree({ ...settings, control: { ...settings.control, host: '192.0.2.1' } }), {
    message: /\(control port of one\): this machine has no such address/,
  })
})
