// The control socket of a real service: requests, the file and its folder, and many operators at once.
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, connect as open } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import test, { type ExecutionContext } from 'ava'
import { isServed } from '../../src/supervisor/socket-file.ts'
import { createSocketOperator, sendToSocket } from '../support/control-socket.ts'
import { folder } from '../support/folder.ts'
import { createOperator } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { runNode } from '../support/run-to-end.ts'
import {
  createDatabase,
  type Service,
  type ServiceOptions,
  type Settings,
  startService,
  supervisorEnv,
} from '../support/service.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()

async function start(t: ExecutionContext, options: ServiceOptions = {}) {
  const service = await startService({ database, ...options })
  t.teardown(() => service.stop())
  return service
}

interface CommandLine {
  readonly command: string
  readonly argument: string | null
  readonly by: string
  readonly outcome: string
}

/** Waits for `count` log lines of commands, because a reply can arrive before its line. @returns all lines so far */
async function commandsOf(service: Service, count: number): Promise<CommandLine[]> {
  const pattern = /"msg":"command"/
  if (count > 0) await service.logLine(pattern, count)
  return service.logLines(pattern).map(line => JSON.parse(line))
}

/** Starts a supervisor that is expected to exit. @returns its exit code and its standard error */
async function runSupervisor(t: ExecutionContext, socket: string) {
  const claim = await claimPorts()
  t.teardown(claim.release)
  const config: Settings = {
    ports: [{ label: 'http', port: claim.first, protocol: 'http' }],
    stateFile: join(folder(t), 'state.json'),
    control: { socket },
  }
  const { code, stderr } = await runNode('dist/supervisor.js', [], supervisorEnv(database, config))
  return { code, errors: stderr }
}

test.serial('commands: reply with JSON, and are logged with the name of the operator', async t => {
  const service = await start(t, { env: { LOG_LEVEL: 'info' } })
  const { socket } = service
  const drained = await sendToSocket(
    socket,
    '/commands/drain',
    '{"argument": "http:404", "by": "ada lovelace"}',
  )
  t.is(drained.status, 200)
  t.is(drained.headers['content-type'], 'application/json')
  t.like(drained.reply, { command: 'drain', argument: 'http:404', mode: '404', by: 'ada lovelace' })
  t.is(await createOperator(service).health('http'), 404)
  t.like(await sendToSocket(socket, '/commands/wait', '{"argument": "http"}'), {
    status: 200,
    reply: { ended: 'drained' },
  })
  t.like(await sendToSocket(socket, '/commands/resume', '{"argument": "http"}'), {
    status: 200,
    reply: { state: 'serving', by: 'control socket' },
  })
  t.like(await sendToSocket(socket, '/commands/status'), {
    status: 200,
    reply: { command: 'status', argument: null },
  })
  t.like(await sendToSocket(socket, '/commands/reload', '{"argument": null}'), { status: 200 })
  const refused = await sendToSocket(socket, '/commands/drain', '{"argument": "htp"}')
  t.deepEqual(refused.reply, {
    command: 'drain',
    argument: 'htp',
    error: 'unknown port "htp"; the ports are http, https',
  })
  t.is(refused.status, 400)
  t.deepEqual(
    (await commandsOf(service, 6)).map(({ command, argument, by }) => [command, argument, by]),
    [
      ['drain', 'http:404', 'ada lovelace'],
      ['wait', 'http', 'control socket'],
      ['resume', 'http', 'control socket'],
      ['status', null, 'control socket'],
      ['reload', null, 'control socket'],
      ['drain', 'htp', 'control socket'],
    ],
  )
})

test.serial('commands: a client that ends its side after the request gets the reply', async t => {
  const { socket } = await start(t)
  const client = open(socket)
  client.end('POST /commands/status HTTP/1.1\r\nContent-Length: 0\r\n\r\n')
  t.regex(await text(client), /^HTTP\/1\.1 200 OK(.|\r\n)*"command":"status"/)
})

test.serial('commands: a change that cannot be stored is a failure of the service', async t => {
  const stateFile = join(folder(t), 'state.json')
  const { socket } = await start(t, { config: { stateFile } })
  mkdirSync(stateFile)
  const { status, reply } = await sendToSocket(socket, '/commands/drain', '{"argument": "http"}')
  t.is(status, 500)
  t.regex(reply.error ?? '', /^\S+state\.json cannot be written: EISDIR/)
  const { reply: now } = await sendToSocket(socket, '/commands/status')
  t.is(now.ports?.http?.state, 'serving')
})

test.serial('requests: invalid ones receive errors, and nothing runs', async t => {
  const service = await start(t, { env: { LOG_LEVEL: 'info' } })
  const { socket } = service
  const body = /^the body must be empty or JSON: \{"argument": string or null, "by": /
  const cases: [string, string, string, number, RegExp][] = [
    [
      'POST',
      '/commands/halt',
      '',
      404,
      /^unknown path \/commands\/halt; use POST .* drain, wait, resume, status, /,
    ],
    ['POST', '/status', '', 404, /^unknown path \/status/],
    ['POST', '/commands/__proto__', '', 404, /^unknown path/],
    ['GET', '/commands/status', '', 405, /^use POST \/commands\/status$/],
    ['POST', '/commands/drain', '{"argument": ', 400, body],
    ['POST', '/commands/drain', '["http"]', 400, body],
    ['POST', '/commands/drain', '{"argument": 7}', 400, body],
    ['POST', '/commands/drain', '{"argument": "http", "mode": "404"}', 400, body],
    ['POST', '/commands/drain', '{"argument": "http", "by": "a\\nb"}', 400, body],
    ['POST', '/commands/drain', `{"argument": "http", "by": "${'a'.repeat(101)}"}`, 400, body],
    [
      'POST',
      '/commands/drain',
      `{"argument": "${'a'.repeat(1_000_000)}"}`,
      413,
      /^the body must have at most 16384 bytes$/,
    ],
  ]
  for (const [method, path, sent, status, error] of cases) {
    const answer = await sendToSocket(socket, path, sent, method)
    t.is(answer.status, status, path)
    t.deepEqual(Object.keys(answer.reply), ['error'])
    t.regex(answer.reply.error ?? '', error)
  }
  t.is((await sendToSocket(socket, '/commands/status', '', 'PUT')).headers.allow, 'POST')
  for (const [sent, status] of [
    ['zzz\r\n\r\n', 400],
    [`POST /commands/status HTTP/1.1\r\nLong: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
  ] as const) {
    const stranger = open(socket)
    stranger.write(sent)
    t.regex(await text(stranger), new RegExp(`^HTTP/1\\.1 ${status} `))
  }
  t.deepEqual(await commandsOf(service, 0), [])
})

test.serial('disconnects: an operator that leaves changes nothing for the others', async t => {
  const service = await start(t, { env: { LOG_LEVEL: 'info' } })
  const operator = createSocketOperator(service.socket)
  await createOperator(service).run('drain', 'http')
  for (const head of [
    'POST /commands/wait HTTP/1.1\r\nContent-Length: 20\r\n\r\n{"argument": "http"}',
    'POST /commands/drain HTTP/1.1\r\nContent-Length: 999\r\n\r\n{"argument":',
    'POST /comm',
    '',
  ]) {
    const leaver = open(service.socket)
    await once(leaver, 'connect')
    leaver.write(head)
    // The supervisor has read the request when it replies to a later one.
    await operator.run('status')
    leaver.destroy()
  }
  t.is((await operator.run('status')).error, undefined)
  t.is((await commandsOf(service, 6)).filter(({ command }) => command === 'drain').length, 1)
})

test.serial(
  'file: mode 0600 in a new folder of mode 0700, replaced after kill -9, removed by a stop',
  async t => {
    const path = join(folder(t), 'run')
    const socket = join(path, 'control.sock')
    const options = { config: { control: { socket } } }
    const first = await startService({ database, ...options })
    t.teardown(() => first.stop())
    t.is(statSync(path).mode & 0o777, 0o700)
    t.true(statSync(socket).isSocket())
    t.is(statSync(socket).mode & 0o777, 0o600)
    first.supervisor.kill('SIGKILL')
    await first.exited
    await first.stop()
    t.true(existsSync(socket), 'the file of a killed supervisor stays')
    const second = await startService({ database, ...options })
    t.teardown(() => second.stop())
    t.is((await createSocketOperator(socket).run('status')).error, undefined)
    t.is(await second.stop(), 0)
    t.false(existsSync(socket))
  },
)

test.serial('file: that of a running supervisor is not touched', async t => {
  const { socket } = await start(t)
  const second = await runSupervisor(t, socket)
  t.is(second.code, 71)
  t.is(
    second.errors,
    `users-api: cannot listen on ${socket} (control socket): another supervisor listens on it; correct that, or set control.socket to another path\n`,
  )
  t.is((await createSocketOperator(socket).run('status')).error, undefined)
})

test.serial('file: no other file is replaced, and no folder is used that others can write to', async t => {
  const path = folder(t)
  const file = join(path, 'notes')
  writeFileSync(file, 'mine')
  const replaced = await runSupervisor(t, file)
  t.is(replaced.code, 78)
  t.regex(replaced.errors, /\/notes \(control socket\): a file that is not a socket has this name; /)
  t.is(readFileSync(file, 'utf8'), 'mine')

  const open = join(path, 'open')
  mkdirSync(open)
  const link = join(path, 'link')
  symlinkSync(open, link)
  for (const [entered, mode] of [
    [open, 0o777],
    [link, 0o775],
  ] as const) {
    chmodSync(open, mode)
    const refused = await runSupervisor(t, join(entered, 'control.sock'))
    t.is(refused.code, 78)
    t.regex(
      refused.errors,
      new RegExp(`${open} must be a folder that belongs to this user, and that no other user can write to; `),
    )
  }
  t.is(statSync(open).mode & 0o777, 0o775)
  chmodSync(open, 0o755)
  if (process.getuid?.() === 0) {
    chownSync(open, 1, 1)
    t.is((await runSupervisor(t, join(open, 'control.sock'))).code, 78, 'the folder of another user')
    chownSync(open, 0, 0)
  }
  const { socket } = await start(t, { config: { control: { socket: join(link, 'control.sock') } } })
  t.is((await createSocketOperator(socket).run('status')).error, undefined)
})

test.serial(
  'startup: the socket is there before the data ports, and a reload then waits for the workers',
  async t => {
    const claim = await claimPorts()
    t.teardown(claim.release)
    const socket = join(folder(t), 'control.sock')
    const other = createServer().listen(claim.first, '127.0.0.1')
    await once(other, 'listening')
    const service = startService({
      database,
      config: { ports: [{ label: 'http', port: claim.first, protocol: 'http' }], control: { socket } },
    })
    t.teardown(async () => {
      other.close()
      await (await service).stop()
    })
    await until(() => isServed(socket))
    const operator = createSocketOperator(socket)
    t.deepEqual((await operator.run('status')).workers, [])
    const reload = operator.run('reload')
    await operator.run('status')
    other.close()
    t.is((await reload).workers?.length, 1)
    await (await service).stop()
  },
)

test.serial('12 operators at once: each gets its own reply, and each command runs once', async t => {
  const service = await start(t, { env: { LOG_LEVEL: 'info' } })
  const NODE_CONFIG = JSON.stringify({ control: { socket: service.socket } })
  const operators = Array.from({ length: 12 }, async (_, index) => {
    const [command = '', argument] =
      [['resume', `port-${index}`], ['log-level', 'info'], ['status'], ['drain', 'http']][index % 4] ?? []
    const args = argument === undefined ? [command] : [command, argument]
    return { command, argument, ...(await runNode('dist/ops.js', args, { ...process.env, NODE_CONFIG })) }
  })
  const outcomes = await Promise.all(operators)
  for (const { command, argument, code, stdout, stderr } of outcomes) {
    t.is(code, command === 'resume' ? 1 : 0, stderr)
    const reply = JSON.parse(stdout)
    t.like(reply, { command, argument: argument ?? null })
    if (command === 'resume') t.regex(reply.error, new RegExp(`^unknown port "${argument}"`))
  }
  const sent = outcomes.map(({ command, argument }) => `${command} ${argument ?? null}`)
  const run = (await commandsOf(service, sent.length)).map(
    ({ command, argument }) => `${command} ${argument}`,
  )
  t.deepEqual(run.sort(), sent.sort())
})
