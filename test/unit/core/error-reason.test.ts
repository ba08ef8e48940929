// The reasons of errors in messages and in the log.
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import test from 'ava'
import { reasonOf } from '../../../src/core/error-reason.ts'
import { listenOnFreePort } from '../../support/ports.ts'

test('reasonOf: an error of OpenSSL is one line', async t => {
  const server = net.createServer(socket => socket.end('no TLS'))
  t.teardown(() => server.close())
  const [error] = await once(tls.connect(await listenOnFreePort(server), '127.0.0.1'), 'error')
  t.regex(reasonOf(error), /^.*wrong version number.*$/)
})
