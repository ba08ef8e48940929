// The remarks of `npm start` about the callers of the API.
import test from 'ava'
import { authRemarks } from '../../../src/cli/start-remarks.ts'
import { type Config, loadConfig } from '../../../src/config/config.ts'
import { apiKey } from '../../support/issuer.ts'

const defaults = await loadConfig()
const remarks = (change: Partial<Config>) => authRemarks({ ...defaults, ...change })
const auth = { keys: [apiKey('a', 'read', 'token')], jwt: null }

test('remarks: an open API is mentioned in production', t => {
  t.deepEqual(remarks({}), [])
  t.deepEqual(remarks({ production: true }), [
    'the API is open: every client that reaches a data port can read and change everything; `npm run key` makes a key',
  ])
})

test('remarks: HTTPS is advised where tokens travel unencrypted', t => {
  const advice =
    'tokens travel unencrypted to the port http: let clients use HTTPS, and bind this port to a loopback address behind a proxy, or remove it'
  for (const production of [true, false]) {
    for (const host of ['0.0.0.0', '::', '192.0.2.1'])
      t.deepEqual(remarks({ auth, host, production }), [advice], host)
    for (const host of ['127.0.0.1', '::1', 'localhost']) t.deepEqual(remarks({ auth, host, production }), [])
  }
  const ports = defaults.ports.filter(({ protocol }) => protocol === 'https')
  t.deepEqual(remarks({ auth, host: '0.0.0.0', ports }), [])
})
