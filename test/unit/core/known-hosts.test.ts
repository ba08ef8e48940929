// Which Host headers are answered: on a loopback address, none that a DNS record of another one can point there.
import test from 'ava'
import fc from 'fast-check'
import { createIsKnownHost } from '../../../src/core/known-hosts.ts'

const names = ['users.example.com']

test('known hosts: on a loopback address', t => {
  for (const address of [
    ...['127.0.0.1', '127.1.2.3', '127.1', 'localhost', 'LOCALHOST'],
    ...['::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', '::FFFF:7f01:203'],
  ]) {
    const isKnown = createIsKnownHost(address, names)
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
      '127.0.0.1.rebound.example',
      '127.0.0.1.5',
    ])
      t.false(isKnown(host), host)
  }
})

test('known hosts: on other addresses, every host', t => {
  for (const address of ['0.0.0.0', '::', '192.0.2.1', '::ffff:192.0.2.1', '::2', 'users.example.com'])
    t.true(createIsKnownHost(address, [])('rebound.example'), address)
})

test('known hosts: on a loopback address, no name of the DNS but the configured ones', t => {
  const isKnown = createIsKnownHost('127.0.0.1', names)
  fc.assert(
    fc.property(fc.domain(), fc.nat(65_535), (name, port) => {
      t.is(isKnown(name), names.includes(name))
      t.is(isKnown(`${name}:${port}`), names.includes(name))
    }),
  )
})
