// The control ports while all data ports are in service: health checks, and requests that are invalid, unusual or incomplete.
import { once } from 'node:events'
import net from 'node:net'
import test from 'ava'
import { check, createOperator } from '../support/operator.ts'
import { connect } from '../support/raw.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const service = await startService()
const operator = createOperator(service)
test.after.always(() => service.stop())

test.serial('health checks: every control port answers for every label, only to GET and HEAD', async t => {
  for (const at of ['http', 'https'])
    for (const label of ['http', 'https']) {
      const answer = await check(operator.controlPort(at), `/healthcheck/${label}?by=haproxy`)
      t.like(answer, { status: 200, code: 'serving', headers: { 'cache-control': 'no-store' } })
      t.deepEqual(answer !== 'refused' && JSON.parse(answer.text), {
        meta: { status: 200, message: `${label} is serving`, code: 'serving' },
      })
    }
  const port = operator.controlPort('http')
  const head = await check(port, '/healthcheck/http', { method: 'HEAD' })
  t.like(head, { status: 200, text: '', headers: { 'content-length': '68' } })
  for (const path of ['/healthcheck/htp', '/healthcheck/', '/healthcheck', '/x', '/healthcheck/http/']) {
    const answer = await check(port, path)
    t.like(answer, { status: 400, code: 'port_not_found' }, path)
    t.regex(answer === 'refused' ? '' : answer.text, /\/healthcheck\/http, \/healthcheck\/https/)
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
    const answer = await check(port, '/healthcheck/http', { method })
    t.like(answer, { status: 405, code: 'method_not_allowed', headers: { allow: 'GET, HEAD' } }, method)
  }
})

test.serial(
  'health checks: HTTP/1.0, connections without a request, resets and malformed bytes do no harm',
  async t => {
    const port = operator.controlPort('http')
    const old = await connect(port)
    old.write('GET /healthcheck/http HTTP/1.0\r\n\r\n')
    await old.closed
    t.regex(old.text(), /^HTTP\/1.1 200 OK/)
    for (const part of ['', 'GET /healthcheck/http HTTP/1.0\r\n\r\n', 'GET /hea', '\0\0\0']) {
      const probe = net.connect(port, '127.0.0.1')
      await once(probe, 'connect')
      probe.write(part)
      probe.resetAndDestroy()
    }
    t.is(await operator.health('http'), 200)
  },
)

test.serial('control ports: invalid requests receive JSON errors, unusual ones their responses', async t => {
  const ask = async (text: string) => {
    const client = await connect(operator.controlPort('http'))
    client.write(text)
    await client.closed
    return client.text()
  }
  const long = 'a'.repeat(20_000)
  const cases: [string, number, string][] = [
    ['zzz\r\n\r\n', 400, 'malformed_request'],
    [`GET / HTTP/1.1\r\nLong: ${long}\r\n\r\n`, 431, 'headers_too_large'],
    [`GET / HTTP/1.1\r\n${'a:b\r\n'.repeat(101)}\r\n`, 431, 'headers_too_large'],
    [`GET /${long} HTTP/1.1\r\n\r\n`, 414, 'uri_too_long'],
    ['CONNECT a:1 HTTP/1.1\r\n\r\n', 405, 'method_not_allowed'],
    ['GET /healthcheck/http HTTP/1.1\r\nExpect: foo\r\n\r\n', 417, 'expectation_failed'],
    ['GET /x HTTP/1.0\r\n\r\n', 400, 'port_not_found'],
  ]
  for (const [request, status, code] of cases) {
    const [head = '', body = ''] = (await ask(request)).split('\r\n\r\n')
    t.regex(head, new RegExp(`^HTTP/1.1 ${status} `), request.slice(0, 40))
    const { meta } = JSON.parse(body)
    t.like(meta, { status, code })
    t.is(/^Request-Id: (.*)$/m.exec(head)?.[1]?.trim(), meta.request_id)
  }
  t.regex(await ask('GET /x HTTP/1.0\r\nRequest-Id: mine\r\n\r\n'), /"request_id":"mine"/)
  t.regex(await ask('GET http://127.0.0.1:1/healthcheck/http HTTP/1.0\r\n\r\n'), /"code":"serving"/)
  t.regex(await ask('GET HTTP://a?x HTTP/1.0\r\n\r\n'), /<!doctype html>/i)
  t.regex(
    await ask('GET /healthcheck/http HTTP/1.1\r\nConnection: close\r\nExpect: 100-Continue\r\n\r\n'),
    /"code":"serving"/,
  )
  const ended = await connect(operator.controlPort('http'), { allowHalfOpen: true })
  ended.socket.end('GET /livez HTTP/1.1\r\n\r\n'.repeat(20))
  for (let due = 0; due < 20; due++) t.regex(await ended.answer(), /"code":"alive"/)
  await ended.closed
})

test.serial('control ports: a request with CONNECT behind it gets its response first', async t => {
  for (const [path, first] of [
    ['/metrics', /^HTTP\/1.1 200 OK\r\n.*users_api_/s],
    ['/healthcheck/http', /^HTTP\/1.1 200 OK\r\n.*"serving"/s],
  ] as const) {
    const client = await connect(operator.controlPort('http'))
    t.regex(await client.ask(`GET ${path} HTTP/1.1\r\n\r\nCONNECT a:1 HTTP/1.1\r\n\r\n`), first)
    t.regex(await client.answer(), /^HTTP\/1.1 405 .*"method_not_allowed"/s)
    await client.closed
  }
})

test.serial(
  'control ports: a client that sends half a request gets 408, one that reads nothing is cut off',
  async t => {
    const late = await connect(operator.controlPort('http'))
    late.write('GET /healthcheck/http HTTP/1.1\r\nHost')
    const unread = await connect(operator.controlPort('http'))
    unread.socket.pause()
    // More responses than the system keeps for the client.
    unread.write('GET / HTTP/1.1\r\n\r\n'.repeat(500))
    await late.closed
    t.regex(late.text(), /^HTTP\/1\.1 408 .*"code":"request_timeout"/s)
    // A paused socket learns that it has been cut off only when it sends.
    await until(() => {
      unread.write('G')
      return unread.socket.destroyed
    })
  },
)

test.serial('control ports: checks are answered beside 1,100 silent connections', async t => {
  const port = operator.controlPort('http')
  const silent = await Promise.all(Array.from({ length: 1100 }, () => connect(port)))
  for (let checks = 0; checks < 20; checks++) t.is(await operator.health('http'), 200)
  for (const { socket } of silent) socket.destroy()
})
