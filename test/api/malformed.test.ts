// Malformed and incomplete HTTP requests: each gets a documented error, nothing is stored and no worker
// exits.
import net from 'node:net'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectNoSideEffects } from '../support/expect.ts'
import { sendRaw } from '../support/http.ts'
import { startService } from '../support/service.ts'

const { service, api, close } = await openApi({ config: { hosts: ['My_host.example'] } })
test.after.always(close)

const countUsers = () => api.count('/v1/users')
const json = 'Host: x\r\nConnection: close\r\nContent-Type: application/json\r\n'
const body = '{"first_name":"a","last_name":"b"}'

const malformed: [title: string, request: string | Buffer][] = [
  ['arbitrary text', 'GARBAGE\r\n\r\n'],
  ['binary data', Buffer.from('00010203ff0d0a0d0a', 'hex')],
  ['a TLS ClientHello', Buffer.from('16030100a5010000a10303', 'hex')],
  ['an unknown method', 'FOO /v1/users HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['HTTP/9.9', 'GET /v1/users HTTP/9.9\r\nHost: x\r\n\r\n'],
  ['no Host', 'GET /v1/users HTTP/1.1\r\nConnection: close\r\n\r\n'],
  ['HTTP/2.0', 'GET /v1/users HTTP/2.0\r\nHost: x\r\nConnection: close\r\n\r\n'],
  ['HTTP/0.9', 'GET /v1/users\r\n\r\n'],
  ...[
    'a b/c@',
    'a b',
    'user@x',
    'http://x',
    'x/y',
    'x:port',
    'x:1:2',
    '::1',
    '[::1',
    '[]',
    'x%zz',
    'ü',
    'x?',
    'a"b',
  ].map((host): [string, string] => [
    `Host: ${host}`,
    `GET /v1/users HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
  ]),
  ['a space in a header name', 'GET /v1/users HTTP/1.1\r\nHost: x\r\nBad Name: x\r\n\r\n'],
  ['NUL in a header', 'GET /v1/users HTTP/1.1\r\nHost: x\r\nX-Bad: a\u0000b\r\n\r\n'],
  ['a header without a colon', 'GET /v1/users HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n'],
  ['Content-Length: abc', `POST /v1/users HTTP/1.1\r\n${json}Content-Length: abc\r\n\r\n${body}`],
  ['Content-Length: -1', `POST /v1/users HTTP/1.1\r\n${json}Content-Length: -1\r\n\r\n${body}`],
  [
    'two different Content-Length headers',
    `POST /v1/users HTTP/1.1\r\n${json}Content-Length: 3\r\nContent-Length: 34\r\n\r\n${body}`,
  ],
  [
    'Content-Length and Transfer-Encoding',
    `POST /v1/users HTTP/1.1\r\n${json}Content-Length: 34\r\nTransfer-Encoding: chunked\r\n\r\n22\r\n${body}\r\n0\r\n\r\n`,
  ],
  [
    'an invalid chunk size',
    `POST /v1/users HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\n\r\nzz\r\n${body}\r\n0\r\n\r\n`,
  ],
  [
    'a chunk longer than its size',
    `POST /v1/users HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\n\r\n3\r\n${body}\r\n0\r\n\r\n`,
  ],
  ...[
    'http://[::/v1/users',
    'http://[::]:x/v1/users',
    'http://]/v1/users',
    '//a@[::#x',
    '//a@[::/v1/%75sers#x',
    'http://a:b@x/v1/users',
    'http:///v1/users',
    'http://:80/v1/users',
    'ftp://x/v1/users',
    'x:///v1/users',
    '*/v1/users',
    '/v1/users#x',
    '/v1\\users#x',
  ].map((target): [string, string] => [
    `the target ${target}`,
    `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  ]),
  ['a stray UTF-8 byte in the path', 'GET /v1/users/%FF HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'],
  [
    'an overlong UTF-8 form in the path',
    'GET /v1/users/%C0%AF HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  ],
  [
    'a UTF-8 encoded surrogate in the path',
    'GET /v1/%ED%A0%80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  ],
]
for (const [title, request] of malformed)
  test.serial(`malformed: ${title} is malformed_request`, async t => {
    await expectNoSideEffects(t, service, countUsers, async () => {
      const { answer, text } = await sendRaw(service.url, request)
      expectError(t, answer, 400, 'malformed_request')
      t.is(text.match(/HTTP\/1\.1 /g)?.length, 1, text)
      // Of every response of an origin server (RFC 9110, 6.6.1).
      t.regex(`${answer?.headers.date}`, / GMT$/, text)
    })
  })

test.serial('malformed: the error of a target that is not percent-encoded says what to do', async t => {
  for (const name of ['Müller', 'van der Berg']) {
    const { answer } = await sendRaw(
      service.url,
      `GET /v1/users?last_name=${name} HTTP/1.1\r\nHost: x\r\n\r\n`,
    )
    expectError(t, answer, 400, 'malformed_request')
    t.regex(answer?.body.meta.message ?? '', /percent-encode spaces and characters outside ASCII$/)
  }
})

test.serial('malformed: the error of HTTP/2 without TLS names the supported versions', async t => {
  const { answer } = await sendRaw(service.url, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  expectError(t, answer, 400, 'malformed_request')
  t.is(answer?.body.meta.message, 'HTTP/2.0 is not supported; allowed: HTTP/1.0 and HTTP/1.1')
})

test.serial(
  'malformed: every form of a target has the same path, in which a backslash is no slash',
  async t => {
    for (const origin of ['', 'http://x', 'HTTPS://x:8000']) {
      const ask = (target: string) =>
        sendRaw(service.url, `GET ${origin}${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
      t.is((await ask('/v1/users?first_name=a/b?c')).answer?.status, 200)
      expectError(t, (await ask('/v1\\users')).answer, 404, 'route_not_found')
      expectError(t, (await ask('/')).answer, 404, 'route_not_found')
      if (origin !== '') expectError(t, (await ask('?x=1')).answer, 404, 'route_not_found')
    }
  },
)

test.serial('malformed: every valid form of Host is accepted, including an empty one', async t => {
  for (const host of [
    '',
    'x',
    'x:',
    'x:80',
    'my_host.example',
    'x%C3%BC',
    '127.0.0.1:8000',
    '[::1]',
    '[::1]:80',
  ]) {
    const request = `OPTIONS /v1/users HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
    t.is((await sendRaw(service.url, request)).answer?.status, 204, host)
  }
})

test.serial(
  'malformed: a name that this server does not have, as a page in a browser uses after DNS rebinding',
  async t => {
    const ask = async (target: string, host: string) => {
      const request = `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`
      const { answer } = await sendRaw(target.includes('/v1') ? service.url : service.controlUrl, request)
      return answer
    }
    for (const target of ['/v1/users', '/v1/docs', '/status', '/healthcheck/http', '/livez']) {
      expectError(t, await ask(target, 'rebound.example:8000'), 400, 'malformed_request')
      for (const host of ['MY_HOST.example.:8000', 'localhost:8000'])
        t.is((await ask(target, host))?.status, 200, `${target} ${host}`)
      // The host of a target in absolute form replaces Host.
      expectError(t, await ask(`http://rebound.example${target}`, 'localhost'), 400, 'malformed_request')
      t.is((await ask(`http://localhost:8000${target}`, 'rebound.example'))?.status, 200)
    }
    const { answer } = await sendRaw(service.url, 'GET /v1/users HTTP/1.0\r\n\r\n')
    t.is(answer?.status, 200, 'HTTP/1.0 without a Host')
  },
)

test.serial('malformed: an incomplete request followed by a half-close is malformed_request', async t => {
  const whole = `POST /v1/users HTTP/1.1\r\n${json}Content-Length: ${body.length}\r\n\r\n${body}`
  await expectNoSideEffects(t, service, countUsers, async () => {
    for (const length of [
      3,
      10,
      20,
      40,
      whole.indexOf('\r\n\r\n') + 2,
      whole.indexOf('{'),
      whole.length - 1,
    ]) {
      const { answer } = await sendRaw(service.url, whole.slice(0, length), 'end')
      expectError(t, answer, 400, 'malformed_request')
    }
  })
})

test.serial('malformed: an incomplete request without further data is request_timeout', async t => {
  const head = `POST /v1/users HTTP/1.1\r\n${json}`
  const incomplete = [
    'GET /v1/us',
    'GET /v1/users HTTP/1.1\r\nHost: x\r\n',
    `${head}Content-Length: ${body.length}\r\n\r\n${body.slice(0, 10)}`,
    `${head}Transfer-Encoding: chunked\r\n\r\n5\r\n{"fir\r\n`,
  ]
  // Only here: a slow machine can exceed these limits with complete requests.
  const impatient = await startService({
    database: service.database,
    config: { timeouts: { headersMs: 1000, requestMs: 1500 } },
  })
  t.teardown(impatient.stop)
  await expectNoSideEffects(t, impatient, countUsers, async () => {
    const answers = await Promise.all(incomplete.map(part => sendRaw(impatient.url, part)))
    for (const { answer } of answers) expectError(t, answer, 408, 'request_timeout')
  })
})

test.serial('malformed: connections that are reset during a request have no side effects', async t => {
  const whole = `POST /v1/users HTTP/1.1\r\n${json}Content-Length: 100\r\n\r\n${body}`
  await expectNoSideEffects(t, service, countUsers, async () => {
    for (const part of ['', whole.slice(0, 5), whole.slice(0, 60), whole])
      for (const port of [service.port('http'), service.port('https')])
        await new Promise<void>(resolve => {
          const socket = net.connect(port, '127.0.0.1')
          socket.on('error', () => undefined)
          socket.on('connect', () => socket.write(part, () => socket.resetAndDestroy()))
          socket.on('close', () => resolve())
        })
  })
})

test.serial('malformed: plain HTTP on the https port is 400, other data without TLS closes it', async t => {
  const port = `http://127.0.0.1:${service.port('https')}`
  await expectNoSideEffects(t, service, countUsers, async () => {
    for (const request of [
      'GET /v1/users HTTP/1.1\r\nHost: x\r\n\r\n',
      `POST /v1/users HTTP/1.1\r\n${json}Content-Length: ${body.length}\r\n\r\n${body}`,
    ]) {
      const { answer } = await sendRaw(port, request)
      expectError(t, answer, 400, 'malformed_request')
      t.regex(answer?.body.meta.message ?? '', /this port serves HTTPS/)
    }
    const { answer } = await sendRaw(port, Buffer.alloc(3000, 255)).catch(() => ({ answer: undefined }))
    t.is(answer, undefined)
  })
})

test.serial('malformed: a PROXY header on a port that does not expect one is 400 and says so', async t => {
  const version2 = '\r\n\r\n\0\r\nQUIT\n\x20\0\0\0'
  for (const header of ['PROXY TCP4 192.0.2.1 192.0.2.2 4321 80\r\n', version2]) {
    const { answer } = await sendRaw(service.url, `${header}GET /v1/users HTTP/1.1\r\nHost: x\r\n\r\n`)
    expectError(t, answer, 400, 'malformed_request')
    t.regex(answer?.body.meta.message ?? '', /PROXY header/)
  }
})

test.serial('malformed: invalid UTF-8 in a query is invalid_parameter', async t => {
  for (const bytes of ['%FF', '%C0%AF', '%ED%A0%80', '%F0%9F%98', 'a%E9', '%F5%80%80%80'])
    for (const query of [
      `first_name=${bytes}`,
      `first_name[in]=a,${bytes}`,
      `groups[*].name=!${bytes}`,
      `sort=${bytes}`,
    ])
      expectError(t, await api.get(`/v1/users?${query}`), 400, 'invalid_parameter')
  const raw = Buffer.concat([
    Buffer.from('GET /v1/users?first_name='),
    Buffer.from([0xff]),
    Buffer.from(' HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
  ])
  expectError(t, (await sendRaw(service.url, raw)).answer, 400, 'malformed_request')
})

test.serial('malformed: unusual but parseable requests never cause a server error', async t => {
  const targets = [
    '/v1/users?%zz',
    '/v1/users?a=%',
    '/v1/users/%zz',
    '/v1/%',
    '/v1/users?=',
    '/v1/users?&&',
    '/v1/users??',
  ]
  const odd = [
    '/v1/users?first_name=%00',
    '/v1/users#x',
    '/v1/users/1;x=1',
    '/v1/../v1/users',
    '/%2e%2e/x',
    '/v1%2Fusers',
    '*',
  ]
  await expectNoSideEffects(t, service, countUsers, async () => {
    for (const target of [...targets, ...odd, 'http://x/v1/users'])
      for (const method of ['GET', 'OPTIONS']) {
        const request = `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`
        const { answer } = await sendRaw(service.url, request)
        t.true(answer !== undefined && answer.status < 500, `${method} ${target}: ${answer?.text}`)
        if (answer !== undefined && answer.status >= 400) t.is(answer.body.meta.status, answer.status)
      }
    await sendRaw(service.url, 'CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n').catch(() => undefined)
  })
})

test('log: request targets that Node warns about when a package parses them are not in it', async t => {
  const logged = await startService()
  for (const target of ['http://[::/v1/users', 'http://x/v1/users'])
    await sendRaw(logged.url, `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  t.is(await logged.stop(), 0)
  t.notRegex(logged.log(), /warning/i)
})
