// Which Host headers are answered: on a loopback address, none that a DNS record of another one can point there.
import test from 'ava'
import fc from 'fast-check'
import { createIsKnownHost } from '../../../src/core/known-hosts.ts'

const names = ['users.example.com']

test('known hosts: on a loopback address', async t => {
  for (const address of [
    ...['127.0.0.1', '127.1.2.3', '127.1', 'localhost', 'LOCALHOST'],
    // Only a look-up tells that these are 127.0.0.1, as with the name of a machine.
    ...['2130706433', '0x7f.1'],
    ...['::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', '::FFFF:7f01:203'],
  ]) {
    const isKnown = await createIsKnownHost(address, names)
    for (const host of [
      undefined,
      '',
      'localhost',
      'localhost.',
      'Localhost:8000',
      'users.localhost',
      'database-1:80',
      '127.0.0.1',
      '192.0.2.7:8000',
      '[::1]',
      '[::ffff:127.0.0.1]:8000',
      'users.example.com',
      'Users.Example.com.:8000',
    ])
      t.true(isKnown(host), host)
    for (const host of [
      'rebound.example',
      'rebound.example:8000',
      'a.users.example.com',
      'users.example.com.rebound.example',
      'localhost.rebound.example',
      'notlocalhost.example',
      'rebound.notlocalhost',
      '127.0.0.1.rebound.example',
      '127.0.0.1.5',
    ])
      t.false(isKnown(host), host)
  }
})

test('known hosts: on other addresses, every host', async t => {
  for (const address of ['0.0.0.0', '::', '192.0.2.1', '::ffff:192.0.2.1', '::2', 'unknown.invalid'])
    t.true((await createIsKnownHost(address, []))('rebound.example'), address)
})

test('known hosts: on a loopback address, no name of the DNS but the configured ones', async t => {
  const isKnown = await createIsKnownHost('127.0.0.1', names)
  fc.assert(
    fc.property(fc.domain(), fc.nat(65_535), (name, port) => {
      t.is(isKnown(name), names.includes(name))
      t.is(isKnown(`${name}:${port}`), names.includes(name))
    }),
  )
})
