// Operators' commands on a real service: a port is drained, and nobody else notices.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { createOperator } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { connect } from '../support/raw.ts'
import { createDatabase, type ServiceOptions, startService } from '../support/service.ts'

const get = 'GET /v1/groups HTTP/1.1\r\nHost: a\r\n\r\n'
const body = () => JSON.stringify({ name: randomUUID() })
const post = `POST /v1/groups HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body().length}\r\n\r\n`
const database = await createDatabase()
/** For services that do not take any that are free. */
const { first: ownPort } = await claimPorts()

function folder(t: ExecutionContext): string {
  const path = mkdtempSync(join(tmpdir(), 'users-api-maintenance-'))
  t.teardown(() => rmSync(path, { recursive: true }))
  return path
}

async function start(t: ExecutionContext, options: ServiceOptions = {}) {
  const service = await startService({ database, workers: 2, ...options })
  t.teardown(() => service.stop())
  return {
    service,
    operator: createOperator(service),
    open: (label = 'http') => connect(service.port(label), { tls: label === 'https' }),
  }
}

test.serial(
  'drain: the check fails, requests go on, idle connections end; the other port does not notice',
  async t => {
    const { operator, open } = await start(t, { config: { drain: { idleMs: 500 } } })
    const other = await open('https')
    const idle = await open()
    for (const client of [other, idle]) {
      client.write(get)
      t.regex(await client.answer(), /Connection: keep-alive/)
    }
    const slow = await open()
    slow.write(post)
    const before = await operator.until(
      ({ ports: { http, https } }) =>
        http?.in_flight === 1 && https?.connections === 1 && https.in_flight === 0,
    )

    const reply = await operator.run('drain', 'http')
    t.like(reply, {
      command: 'drain',
      argument: 'http',
      state: 'draining',
      mode: '404',
      by: 'pm2',
      in_flight: 1,
    })
    for (const at of ['http', 'https']) {
      t.is(await operator.health('http', at), 404)
      t.is(await operator.health('https', at), 200)
    }
    await idle.closed
    const during = await open()
    during.write(get)
    t.regex(await during.answer(), /200 OK(.|\r\n)*Connection: close/)
    await during.closed

    t.is((await operator.status()).ports.http?.state, 'draining')
    slow.write(body())
    t.regex(await slow.answer(), /200 OK(.|\r\n)*Connection: close/)
    const drained = await operator.until(({ ports }) => ports.http?.state === 'drained')
    t.deepEqual(drained.ports.https, { ...before.ports.https, checkers: drained.ports.https?.checkers })
    other.write(get)
    t.regex(await other.answer(), /Connection: keep-alive/)

    t.like(
      await operator.run('drain', 'http'),
      { state: 'drained', since: reply.since, changed: false },
      'again changes nothing',
    )
    t.like(await operator.run('resume', 'http'), { state: 'serving', mode: null, by: 'pm2' })
    t.is(await operator.health('http'), 200)
    t.like(await operator.run('resume', 'http by=ada'), { state: 'serving', by: 'pm2', changed: false })
    const afterwards = await open()
    afterwards.write(get)
    t.regex(await afterwards.answer(), /Connection: keep-alive/)
  },
)

test.serial('replies count the connections of this moment, not those of the last heartbeat', async t => {
  // No heartbeat comes by itself before the test is over.
  const { operator, open } = await start(t, { config: { fleet: { beatMs: 60_000, silentMs: 130_000 } } })
  const upload = async () => {
    const client = await open()
    client.write(post.replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n'))
    await client.until(/100 Continue/)
    return client
  }
  const first = await upload()
  t.like((await operator.run('status')).ports?.http, { connections: 1, in_flight: 1 })
  const second = await upload()
  t.like(await operator.run('drain', 'http'), { state: 'draining', connections: 2, in_flight: 2 })
  const [hung] = (await operator.status()).workers
  process.kill(hung?.pid ?? 0, 'SIGSTOP')
  t.like(await operator.run('resume', 'http'), { state: 'serving' }, 'a hung worker keeps nobody waiting')
  process.kill(hung?.pid ?? 0, 'SIGCONT')
  for (const { socket } of [first, second]) socket.destroy()
})

test.serial('replies do not count by a heartbeat that was under way already', async t => {
  const { service, operator, open } = await start(t, { workers: 1, config: { fleet: { beatMs: 1 } } })
  const first = await open()
  // When it goes on it hears the operator first, and then of all that was before, in more than one piece.
  service.supervisor.send('it looks here first')
  service.supervisor.kill('SIGSTOP')
  for (let request = 0; request < 200; request++) {
    first.write(get)
    await first.answer()
  }
  const second = await open()
  second.write(get)
  await second.answer()
  const status = operator.run('status')
  service.supervisor.kill('SIGCONT')
  t.like((await status).ports?.http, { connections: 2 })
})

test.serial(
  'drain refuse: the control port is closed, also to who is connected; others answer for it',
  async t => {
    const { operator, open } = await start(t)
    const checker = await connect(operator.controlPort('http'))
    checker.write('GET /healthcheck/http HTTP/1.1\r\n\r\n')
    await checker.answer()
    t.like(await operator.run('drain', 'http:refuse by=ada'), { mode: 'refuse', by: 'ada' })
    await checker.closed
    t.is(await operator.health('http'), 'refused')
    t.is(await operator.health('http', 'https'), 404)
    t.is(await operator.health('https'), 200)
    const client = await open()
    client.write(get)
    t.regex(await client.answer(), /200 OK/, 'the data port still serves')

    t.like(await operator.run('drain', 'http:404'), { mode: '404', by: 'pm2' })
    t.is(await operator.health('http'), 404)
    await operator.run('drain', 'http:refuse')
    await operator.run('resume', 'http')
    t.is(await operator.health('http'), 200)
  },
)

test.serial(
  'resume: a control port that was taken meanwhile is named, and had as soon as it is free',
  async t => {
    const { service, operator } = await start(t)
    await operator.run('drain', 'http:refuse')
    const other = net.createServer().listen(operator.controlPort('http'), '127.0.0.1')
    t.teardown(() => other.close())
    await once(other, 'listening')
    for (let again = 0; again < 2; again++) {
      const { error = '' } = await operator.run('resume', 'http')
      t.regex(error, /^http is serving, but its control port stays closed, .* the port is already in use/)
    }
    t.is(await operator.health('http', 'https'), 200, 'the data port serves')
    other.close()
    while ((await operator.health('http')) === 'refused') await delay(10)
    t.like(await operator.run('resume', 'http'), { state: 'serving', changed: false })
    const lines: { msg: string }[] = service
      .log()
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    t.deepEqual(
      lines.map(({ msg }) => msg).filter(msg => msg.includes('control port')),
      ['the control port stays closed, and is tried again', 'the control port is as it should be again'],
    )
  },
)

test.serial('a connection that never ends is cut at the deadline', async t => {
  const { operator, open } = await start(t, { config: { drain: { deadlineMs: 1500 } } })
  const stuck = await open()
  stuck.write(post)
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  const startMs = performance.now()
  await operator.run('drain', 'http')
  // It ends with the deadline or with the cut, whichever it sees first.
  t.truthy((await operator.run('wait', 'http')).ended)
  await stuck.closed
  t.true(performance.now() - startMs >= 1500)
})

test.serial('wait: until no connection is left and every checker has seen it', async t => {
  const { operator, open } = await start(t)
  await operator.health('http')
  await operator.health('http', 'https')
  const slow = await open()
  slow.write(post)
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  await operator.run('drain', 'http')
  let ended = false
  const wait = operator.run('wait', 'http').finally(() => {
    ended = true
  })
  slow.write(body())
  await slow.closed
  await operator.until(({ ports }) => ports.http?.state === 'drained')
  t.false(ended, 'the checker does not know yet')
  t.is(await operator.health('http'), 404)
  t.like(await wait, {
    command: 'wait',
    argument: 'http',
    ended: 'drained',
    state: 'drained',
    connections: 0,
  })
})

test.serial(
  'wait: at the deadline it says who has not seen it; where checks only connect it grants the delay',
  async t => {
    const { operator } = await start(t, { config: { drain: { delayMs: 700, deadlineMs: 1000 } } })
    await operator.health('http')
    await operator.run('drain', 'http')
    t.like(await operator.run('wait', 'http'), {
      ended: 'deadline',
      state: 'drained',
      waiting_for: ['127.0.0.1'],
    })

    const startMs = performance.now()
    await operator.run('drain', 'https:refuse')
    t.like(await operator.run('wait', 'https'), { ended: 'drained', mode: 'refuse' })
    t.true(performance.now() - startMs >= 700)
  },
)

test.serial(
  'wait: those who only connect have the delay from the refusal on, not from the drain',
  async t => {
    const { operator } = await start(t, { config: { drain: { delayMs: 700 } } })
    const { since } = await operator.run('drain', 'http')
    await operator.run('drain', 'https:refuse')
    await operator.run('wait', 'https')

    const startMs = performance.now()
    await operator.run('drain', 'http:refuse')
    t.like(await operator.run('wait', 'http'), { ended: 'drained', mode: 'refuse', since })
    t.true(performance.now() - startMs >= 700)
  },
)

test.serial('bad commands say what is possible, and change nothing', async t => {
  const stateFile = join(folder(t), 'state.json')
  const { operator } = await start(t, { config: { stateFile } })
  await operator.until(({ redis }) => redis !== 'connecting')
  await operator.run('drain', 'https')
  await operator.until(({ ports }) => ports.https?.state === 'drained')
  const before = { status: await operator.status(), file: readFileSync(stateFile, 'utf8') }
  const bad: [string, string | undefined, RegExp][] = [
    ['drain', undefined, /no port ""; the ports are http, https/],
    ['drain', 'htp', /no port "htp"; the ports are http, https/],
    ['drain', 'http:', /possible are http, http:404 and http:refuse/],
    ['drain', 'http:503', /possible are http, http:404 and http:refuse/],
    ['drain', 'http:404:404', /possible are http, http:404 and http:refuse/],
    ['drain', '__proto__', /no port/],
    ['wait', 'http', /http is serving; possible is: drain http/],
    ['wait', 'https:404', /no port/],
    ['resume', '', /no port/],
    ['status', 'http', /status takes no argument/],
    ['reload', 'now', /reload takes no argument/],
    ['reload-certificates', 'https', /takes no argument/],
  ]
  for (const [command, argument, error] of bad) {
    const reply = await operator.run(command, argument)
    t.deepEqual(Object.keys(reply), ['command', 'argument', 'error'])
    t.regex(reply.error ?? '', error)
  }
  const { workers: _, ...after } = await operator.status()
  t.deepEqual({ status: { ...before.status, ...after }, file: readFileSync(stateFile, 'utf8') }, before)
})

test.serial('every command is logged: what, by whom, and what came of it', async t => {
  const { service, operator } = await start(t, { env: { LOG_LEVEL: 'info' } })
  await operator.run('drain', 'http by=ada@desk')
  await operator.run('resume', 'https')
  await operator.run('status')
  while (!service.log().includes('"command":"status"')) await new Promise(setImmediate)
  const lines: { msg: string; time: string }[] = service
    .log()
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  t.like(
    lines.filter(({ msg }) => msg === 'command'),
    [
      { command: 'drain', argument: 'http by=ada@desk', by: 'ada@desk', outcome: 'done' },
      {
        command: 'resume',
        argument: 'https',
        by: 'pm2',
        outcome: 'done',
      },
      { command: 'status', argument: null, by: 'pm2', outcome: 'done' },
    ],
  )
})

for (const mode of ['404', 'refuse'] as const)
  test.serial(`maintenance outlives kill -9 and restarts, mode ${mode}; a stop is forgotten`, async t => {
    const stateFile = join(folder(t), 'state.json')
    const config = {
      stateFile,
      ports: [
        { label: 'http', port: ownPort, protocol: 'http' as const },
        { label: 'other', port: ownPort + 2, protocol: 'http' as const },
      ],
    }
    const first = await start(t, { config })
    await first.operator.run('drain', `other:${mode}`)
    first.service.supervisor.kill('SIGKILL')
    await first.service.exited

    // Asked all the time from the first moment on, the port never looks healthy.
    const answers = new Set<number | string>()
    let over = false
    const asking = (async () => {
      while (!over) {
        answers.add(await first.operator.health('other'))
        await delay(10)
      }
    })()
    const second = await start(t, { config })
    t.like((await second.operator.status()).ports.other, { mode, by: 'pm2', state: 'drained' })
    t.is(await second.service.stop(), 0)
    const third = await start(t, { config })
    t.like((await third.operator.status()).ports, { http: { state: 'serving' }, other: { mode } })
    over = true
    await asking
    t.false(answers.has(200))
    await third.operator.run('resume', 'other')
    t.is(await third.operator.health('other'), 200)
  })

test.serial('a damaged state file means serving, and a loud line', async t => {
  const stateFile = join(folder(t), 'state.json')
  writeFileSync(stateFile, '{"maintenance": {"http": {"mode": "4')
  const { service, operator } = await start(t, { config: { stateFile } })
  t.is(await operator.health('http'), 200)
  t.regex(service.log(), /"level":50.*DAMAGED/)
})

test.serial('pm2 is told when the service is up, and which commands there are', async t => {
  const child = spawn(process.execPath, ['dist/supervisor.js'], {
    env: {
      ...process.env,
      NODE_ENV: 'test',
      DATABASE_URL: database,
      NODE_CONFIG: JSON.stringify({
        workers: 2,
        stateFile: join(folder(t), 's.json'),
        ports: [{ label: 'a', port: ownPort, protocol: 'http' }],
      }),
    },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const seen: unknown[] = []
  child.on('message', message => seen.push(message))
  while (seen.at(-1) !== 'ready') await once(child, 'message')
  t.is(await createOperator({ supervisor: child, port: () => ownPort }).health('a'), 200)
  t.deepEqual(
    seen.flatMap(message =>
      typeof message === 'object' && message !== null && 'data' in message ? [message.data] : [],
    ),
    [
      ['drain', 1],
      ['wait', 1],
      ['resume', 1],
      ['status', 0],
      ['reload', 0],
      ['reload-certificates', 0],
      ['log-level', 1],
    ].map(([action_name, arity]) => ({ action_name, action_type: 'custom', arity, opts: null })),
  )
  child.kill()
  const [code] = await once(child, 'exit')
  t.is(code, 0)
})
