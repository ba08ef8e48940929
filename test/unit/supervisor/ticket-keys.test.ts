// The keys that all workers share: those of TLS session tickets and those of JWT issuers.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { pino } from 'pino'
import { createDesiredState } from '../../../src/supervisor/desired-state.ts'
import { createTicketKeys, deriveTicketKeys } from '../../../src/supervisor/ticket-keys.ts'
import { folder } from '../../support/folder.ts'

const hourMs = 3_600_000
const secret = Buffer.alloc(48, 1)

test('ticket keys: all nodes with the same secret derive the same 48 bytes for one hour', t => {
  const beganMs = 500_000 * hourMs
  const keys = deriveTicketKeys(secret, beganMs)
  t.is(keys.length, 48)
  t.deepEqual(deriveTicketKeys(Buffer.from(secret), beganMs + hourMs - 1), keys)
  const others = [
    deriveTicketKeys(secret, beganMs + hourMs),
    deriveTicketKeys(secret, beganMs - 1),
    deriveTicketKeys(Buffer.alloc(48, 2), beganMs),
  ]
  for (const other of others) t.notDeepEqual(other, keys)
})

test('ticket keys: the error for a file that cannot be used names the setting', async t => {
  const loadFrom = (ticketKeyFile: string) =>
    createTicketKeys(
      { tls: { ticketKeyFile } },
      pino({ level: 'silent' }),
      createDesiredState('info', { beatMs: 1000 }),
    ).load()
  const fault = 'tls.ticketKeyFile cannot be used: '
  await t.throwsAsync(loadFrom('/does/not/exist'), {
    message: `${fault}ENOENT: no such file or directory, open '/does/not/exist'`,
  })
  const path = folder(t)
  await t.throwsAsync(loadFrom(path), { message: `${fault}${path} is a folder` })
})

test('ticket keys: those of the next hour are used although the file is the same', async t => {
  const ticketKeyFile = join(folder(t), 'tickets')
  writeFileSync(ticketKeyFile, randomBytes(48))
  const desired = createDesiredState('info', { beatMs: 1000 })
  const { load, refresh } = createTicketKeys({ tls: { ticketKeyFile } }, pino({ level: 'silent' }), desired)
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  Date.now = () => 500_000 * hourMs
  await load()
  const { ticketKeys } = desired.current()
  await refresh()
  t.is(desired.current().ticketKeys, ticketKeys)
  Date.now = () => 500_001 * hourMs
  await refresh()
  t.not(desired.current().ticketKeys, ticketKeys)
})

test('issuer keys: those of an earlier reading do not replace those of a later one', t => {
  const desired = createDesiredState('info', { beatMs: 1000 })
  const keep = (text: string, beganMs: number) =>
    desired.keepIssuerKeys({ source: 'https://issuer', keys: { text, beganMs } })
  t.true(keep('one', 1))
  t.true(keep('three', 3))
  t.false(keep('two', 2))
  t.false(keep('three', 4), 'workers that have the same keys need none')
  t.deepEqual(desired.current().issuerKeys, { 'https://issuer': { text: 'three', beganMs: 4 } })
})
