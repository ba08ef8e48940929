// The operators' commands on a real service: drain, wait and resume, their replies, and the persisted state.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { folder } from '../support/folder.ts'
import { beginRequest, body, finishRequest, get, post } from '../support/group-requests.ts'
import { check, createOperator } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { connect } from '../support/raw.ts'
import {
  createDatabase,
  runInWorkers,
  type ServiceOptions,
  type Settings,
  startService,
  supervisorEnv,
} from '../support/service.ts'
import { atSteadyInterval } from '../support/steady-interval.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()
/** For services with fixed ports. */
const { first: ownPort } = await claimPorts()

async function start(t: ExecutionContext, options: ServiceOptions = {}) {
  const service = await startService({ database, ...options })
  t.teardown(() => service.stop())
  return {
    service,
    operator: createOperator(service),
    open: (label = 'http') => connect(service.port(label), { tls: label === 'https' }),
  }
}

test.serial(
  'drain: checks fail, requests are served, idle connections close; the other port is unaffected',
  async t => {
    // An idle connection closes soon, but not before the request that is written to it at once has been read.
    const { operator, open } = await start(t, { workers: 2, config: { drain: { idleMs: 3000 } } })
    const other = await open('https')
    const idle = await open()
    for (const client of [other, idle]) t.regex(await client.ask(get), /Connection: keep-alive/)
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
    t.regex(await during.ask(get), /200 OK(.|\r\n)*Connection: close/)
    await during.closed

    t.is((await operator.status()).ports.http?.state, 'draining')
    await finishRequest(t, slow)
    const drained = await operator.until(({ ports }) => ports.http?.state === 'drained')
    t.deepEqual(drained.ports.https, { ...before.ports.https, checkers: drained.ports.https?.checkers })
    t.regex(await other.ask(get), /Connection: keep-alive/)

    t.like(
      await operator.run('drain', 'http'),
      { state: 'drained', since: reply.since, changed: false },
      'a repeated drain changes nothing',
    )
    t.like(await operator.run('resume', 'http'), { state: 'serving', mode: null, by: 'pm2' })
    t.is(await operator.health('http'), 200)
    t.like(await operator.run('resume', 'http by=ada'), { state: 'serving', by: 'pm2', changed: false })
    const afterwards = await open()
    t.regex(await afterwards.ask(get), /Connection: keep-alive/)
  },
)

test.serial('replies: count the current connections, not those of the last heartbeat', async t => {
  // No scheduled heartbeat is sent during this test.
  const { operator, open } = await start(t, {
    workers: 2,
    config: { fleet: { beatMs: 60_000, silentMs: 130_000 } },
  })
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
  t.like(await operator.run('resume', 'http'), { state: 'serving' }, 'a hung worker does not block the reply')
  const status = operator.run('status')
  // By then, the supervisor has read the command, which waits for the worker.
  await operator.health('http')
  process.kill(hung?.pid ?? 0, 'SIGKILL')
  t.is((await status).error, undefined, 'nor does one that exits')
  for (const { socket } of [first, second]) socket.destroy()
})

test.serial('replies: many commands at once put nothing but JSON into the log', async t => {
  const { service, operator } = await start(t)
  for (let count = 0; count < 60; count++) service.supervisor.send('status')
  t.is((await operator.run('status')).error, undefined)
  t.notRegex(service.log(), /MaxListenersExceededWarning/)
})

test.serial('revisions: each command sends one to every worker', async t => {
  const { service, operator } = await start(t, {
    workers: 2,
    env: runInWorkers(`process.on('message', ({ type, revision }) => {
      if (type === 'desired-state') process.stderr.write('revision ' + revision + ' ' + process.pid + '\\n')
    })`),
  })
  const workers = await service.workers()
  const received = /^revision \d+ \d+$/
  const commands = [
    'drain http',
    'drain http',
    'resume http',
    'log-level error',
    'reload-certificates',
    'status',
  ]
  for (const line of commands) {
    const [command = '', argument] = line.split(' ')
    const before = service.logLines(received).length
    t.is((await operator.run(command, argument)).error, undefined)
    // The reply follows the heartbeats of both workers, and these their output, which can arrive later.
    await service.logLine(received, before + 2)
    const sent = service
      .logLines(received)
      .slice(before)
      .map(one => one.split(' '))
    t.is(new Set(sent.map(([, revision]) => revision)).size, 1, line)
    t.deepEqual(
      sent.map(([, , pid]) => Number(pid)).sort((a, b) => a - b),
      workers,
      line,
    )
  }
})

test.serial('versions: a worker whose heartbeat has an unknown field is still counted', async t => {
  const { operator, open } = await start(t, {
    env: runInWorkers(`const { send } = process
    const next = message => (message.type === 'heartbeat' ? { ...message, ofTheNextVersion: 1 } : message)
    process.send = (message, ...rest) => send.call(process, next(message), ...rest)`),
  })
  const slow = await open()
  slow.write(post.replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n'))
  await slow.until(/100 Continue/)
  t.like(await operator.run('drain', 'http'), { state: 'draining', connections: 1, in_flight: 1 })
  slow.socket.destroy()
})

test.serial('replies: ignore a heartbeat sent before the command', async t => {
  const { service, operator, open } = await start(t, { workers: 1, config: { fleet: { beatMs: 1 } } })
  const first = await open()
  // When it continues, it reads the operator's channel first, and then the queued messages in several chunks.
  service.supervisor.send('read this channel first')
  service.supervisor.kill('SIGSTOP')
  // A heartbeat each millisecond: several chunks, but few enough to be read before the reply is due.
  for (const startMs = performance.now(); performance.now() - startMs < 500; ) await first.ask(get)
  const second = await open()
  await second.ask(get)
  const status = operator.run('status')
  service.supervisor.kill('SIGCONT')
  t.like((await status).ports?.http, { connections: 2 })
})

test.serial(
  'drain refuse: the control port closes with its connections; other control ports answer for the label',
  async t => {
    const { operator, open } = await start(t, { config: { drain: { idleMs: 3000 } } })
    const unused = await connect(operator.controlPort('http'))
    const checker = await connect(operator.controlPort('http'))
    await checker.ask('GET /healthcheck/http HTTP/1.1\r\n\r\n')
    t.like(await operator.run('drain', 'http:refuse by=ada'), { mode: 'refuse', by: 'ada' })
    unused.write('GET /healthcheck/http HTTP/1.1\r\n\r\n')
    await Promise.all([unused.closed, checker.closed])
    t.is(unused.text(), '')
    t.is(await operator.health('http'), 'refused')
    t.is(await operator.health('http', 'https'), 404)
    t.is(await operator.health('https'), 200)
    const client = await open()
    t.regex(await client.ask(get), /200 OK/, 'the data port still serves')

    t.like(await operator.run('drain', 'http:404'), { mode: '404', by: 'pm2' })
    t.is(await operator.health('http'), 404)
    await operator.run('drain', 'http:refuse')
    await operator.run('resume', 'http')
    t.is(await operator.health('http'), 200)
  },
)

test.serial(
  'resume: reports a control port taken by another process, and opens it once it is free',
  async t => {
    const { service, operator } = await start(t)
    await operator.run('drain', 'http:refuse')
    const other = net.createServer().listen(operator.controlPort('http'), '127.0.0.1')
    t.teardown(() => other.close())
    await once(other, 'listening')
    for (let again = 0; again < 2; again++) {
      const { error = '' } = await operator.run('resume', 'http')
      t.regex(
        error,
        /^http is serving, but its control port is closed; the service tries to open it every second: .* the port is already in use/,
      )
    }
    t.is(await operator.health('http', 'https'), 200, 'the data port serves')
    await operator.run('drain', 'http:refuse')
    t.deepEqual(
      service.logLines(/control port recovered/),
      [],
      'it is to be closed now, and the other process has it',
    )
    await operator.run('resume', 'http')
    other.close()
    await service.logLine(/control port recovered/)
    t.is(await operator.health('http'), 200)
    t.like(await operator.run('resume', 'http'), { state: 'serving', changed: false })
    await operator.run('drain', 'http:refuse')
    await operator.run('resume', 'http')
    t.deepEqual(
      service.logLines(/"msg":".*control port/).map(line => JSON.parse(line).msg),
      [
        'control port cannot be opened, retrying',
        'control port cannot be opened, retrying',
        'control port recovered',
      ],
    )
  },
)

test.serial(
  'drain: a request in flight outlasts the deadline; a stop ends it at its own deadline',
  async t => {
    const { service, operator, open } = await start(t, {
      config: { drain: { deadlineMs: 1500 } },
    })
    const stuck = await open()
    stuck.write(post)
    const slow = await open()
    slow.write(post)
    await operator.until(({ ports }) => ports.http?.in_flight === 2)
    await operator.run('drain', 'http')
    for (let again = 0; again < 2; again++)
      t.like(await operator.run('wait', 'http'), { ended: 'deadline', state: 'draining', in_flight: 2 })
    t.regex(await slow.ask(body()), /200 OK/)
    const startMs = performance.now()
    service.supervisor.kill('SIGTERM')
    await stuck.closed
    t.true(performance.now() - startMs >= 1500)
    t.is(stuck.text(), '')
    t.is(await service.exited, 0)
  },
)

test.serial('drain: a request of 8 s outlives a drain whose deadline is 0.5 s', async t => {
  const { operator, open } = await start(t, { config: { drain: { deadlineMs: 500 } } })
  const slow = await open()
  slow.write(post)
  const startMs = performance.now()
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  await operator.run('drain', 'http')
  t.like(await operator.run('wait', 'http'), { ended: 'deadline', state: 'draining', in_flight: 1 })
  // The time of the request is what is tested.
  await delay(8000 - (performance.now() - startMs))
  await finishRequest(t, slow)
  t.like(await operator.until(({ ports }) => ports.http?.state === 'drained'), {
    ports: { http: { connections: 0 } },
  })
})

test.serial(
  'wait: ends when no connection is left and every checker has seen the maintenance twice',
  async t => {
    const { operator, open } = await start(t)
    const slow = await beginRequest(operator, open)
    await operator.becomeChecker('http', 'https')
    await operator.run('drain', 'http')
    let ended = false
    const wait = operator.run('wait', 'http').finally(() => {
      ended = true
    })
    slow.write(body())
    await slow.closed
    await operator.until(({ ports }) => ports.http?.state === 'drained')
    t.false(ended, 'the checker has not seen the maintenance yet')
    t.is(await operator.health('http'), 404)
    // A `wait` that has nothing to wait for replies before a later command.
    const again = operator.run('wait', 'http')
    t.is((await operator.run('status')).ports?.http?.checkers[0]?.noticed, 1)
    t.false(ended, 'a proxy can ignore one failed check')
    t.is(await operator.health('http'), 404)
    await again
    t.like(await wait, {
      command: 'wait',
      argument: 'http',
      ended: 'drained',
      state: 'drained',
      connections: 0,
    })
  },
)

test.serial(
  'wait: in the mode refuse, checkers of another control port must see the maintenance, too',
  async t => {
    const { operator } = await start(t)
    await operator.becomeChecker('http', 'https')
    await operator.run('drain', 'http:refuse')
    let ended = false
    const wait = operator.run('wait', 'http').finally(() => {
      ended = true
    })
    await until(async () => (await operator.status('https')).ports.http?.state === 'drained')
    t.false(ended, 'the checker has not seen the maintenance yet')
    for (let checks = 0; checks < 2; checks++) t.is(await operator.health('http', 'https'), 404)
    const { ended: reason, checkers } = await wait
    t.is(reason, 'drained')
    t.is(checkers?.[0]?.noticed, 2)
  },
)

test.serial('wait: lasts while clients come back, and tells at the deadline what still arrives', async t => {
  const { operator, open } = await start(t, {
    config: { drain: { quietMs: 60_000, deadlineMs: 5000 } },
  })
  let isOver = false
  // As behind a proxy that does not check: each response closes its connection, and the next request opens another.
  const comeBack = async () => {
    while (!isOver) {
      const client = await open()
      client.write(get)
      await client.closed
      await operator.until(({ ports }) => ports.http?.connections === 0)
    }
  }
  await operator.run('drain', 'http')
  const clients = comeBack()
  const { ended, state, requests_per_second = 0, addresses } = await operator.run('wait', 'http')
  t.deepEqual({ ended, state, addresses }, { ended: 'deadline', state: 'draining', addresses: ['127.0.0.1'] })
  t.true(requests_per_second > 0)
  isOver = true
  await clients
})

test.serial(
  'wait: lists pending checkers at the deadline; in the mode refuse it lasts for the drain delay',
  async t => {
    const { operator } = await start(t, { config: { drain: { delayMs: 700, deadlineMs: 1000 } } })
    await operator.becomeChecker('http')
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

test.serial('wait: its deadline begins again with another mode', async t => {
  const config = { drain: { delayMs: 100, quietMs: 100, deadlineMs: 3000 } }
  const { operator, open } = await start(t, { config })
  const client = await beginRequest(operator, open)
  await operator.run('drain', 'http')
  t.like(await operator.run('wait', 'http'), { ended: 'deadline', state: 'draining' })
  await operator.run('drain', 'http:refuse')
  client.socket.destroy()
  t.like(await operator.run('wait', 'http'), { ended: 'drained', mode: 'refuse' })
})

test.serial(
  'wait: ends with the last connection where nothing but a person has asked for the health',
  async t => {
    const { operator, open } = await start(t, { config: { drain: { deadlineMs: 600_000 } } })
    await operator.health('http')
    const slow = await beginRequest(operator, open)
    // Probes of the service itself, at a steady interval.
    await atSteadyInterval(500, async probe => {
      await check(operator.controlPort('http'), probe % 2 === 0 ? '/livez' : '/readyz')
      return probe === 5
    })
    await operator.run('drain', 'http')
    t.deepEqual((await operator.status()).ports.http?.checkers, [])
    const wait = operator.run('wait', 'http')
    slow.write(body())
    await slow.closed
    t.like(await wait, { ended: 'drained', checkers: [] })
  },
)

test.serial('wait: ends when a checker that has seen no maintenance is forgotten', async t => {
  const { operator } = await start(t)
  await operator.becomeChecker('http')
  t.is((await operator.run('drain', 'http')).checkers?.length, 1)
  t.like(await operator.run('wait', 'http'), { ended: 'drained', checkers: [] })
})

test.serial('wait: after a change to the mode refuse the drain delay starts again', async t => {
  const { operator } = await start(t, { config: { drain: { delayMs: 700 } } })
  const { since } = await operator.run('drain', 'http')
  await operator.run('drain', 'https:refuse')
  await operator.run('wait', 'https')

  const startMs = performance.now()
  await operator.run('drain', 'http:refuse')
  t.like(await operator.run('wait', 'http'), { ended: 'drained', mode: 'refuse', since })
  t.true(performance.now() - startMs >= 700)
})

test.serial('invalid commands: the error says what is allowed, and nothing changes', async t => {
  const stateFile = join(folder(t), 'state.json')
  const { operator } = await start(t, { config: { stateFile } })
  await operator.until(({ redis }) => redis !== 'connecting')
  await operator.run('drain', 'https')
  await operator.until(({ ports }) => ports.https?.state === 'drained')
  const before = { status: await operator.status(), file: readFileSync(stateFile, 'utf8') }
  const bad: [string, string | undefined, RegExp][] = [
    ['drain', undefined, /unknown port ""; the ports are http, https/],
    ['drain', 'htp', /unknown port "htp"; the ports are http, https/],
    ['drain', 'http:', /unknown mode; use http, http:404 or http:refuse/],
    ['drain', 'http:503', /unknown mode; use http, http:404 or http:refuse/],
    ['drain', 'http:404:404', /unknown mode; use http, http:404 or http:refuse/],
    ['drain', '__proto__', /unknown port/],
    ['wait', 'http', /http is serving; run drain http first/],
    ['wait', 'https:404', /unknown port/],
    ['resume', '', /unknown port/],
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

test.serial('log: every command with argument, operator and outcome', async t => {
  const { service, operator } = await start(t, { env: { LOG_LEVEL: 'info' } })
  await operator.run('drain', 'http by=ada@desk')
  await operator.run('resume', 'https')
  await operator.run('status')
  await service.logLine(/"command":"status"/)
  t.like(
    service.logLines(/"msg":"command"/).map(line => JSON.parse(line)),
    [
      { command: 'drain', argument: 'http', by: 'ada@desk', outcome: 'done' },
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
  test.serial(
    `state file: maintenance in mode ${mode} survives kill -9 and restarts; the drain of a stop does not`,
    async t => {
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

      // Health checks are sent all the time, and none may report a healthy port.
      const answers = new Set<number | string>()
      let isOver = false
      const checking = (async () => {
        while (!isOver) answers.add(await first.operator.health('other'))
      })()
      t.teardown(() => {
        isOver = true
      })
      const second = await start(t, { config })
      const { ports } = await second.operator.until(status => status.ports.other?.state === 'drained')
      t.like(ports.other, { mode, by: 'pm2' })
      t.is(await second.service.stop(), 0)
      const third = await start(t, { config })
      t.like((await third.operator.status()).ports, { http: { state: 'serving' }, other: { mode } })
      t.is(await third.operator.health('other'), mode === 'refuse' ? 'refused' : 404)
      isOver = true
      await checking
      t.false(answers.has(200))
      await third.operator.run('resume', 'other')
      t.is(await third.operator.health('other'), 200)
    },
  )

test.serial('state file: a damaged one is logged as an error, and every port serves', async t => {
  const stateFile = join(folder(t), 'state.json')
  writeFileSync(stateFile, '{"maintenance": {"http": {"mode": "4')
  const { service, operator } = await start(t, { config: { stateFile } })
  t.is(await operator.health('http'), 200)
  t.regex(service.log(), /"level":50.*DAMAGED/)
})

test.serial('pm2: receives the available commands and the ready message', async t => {
  const path = folder(t)
  const config: Settings = {
    workers: 1,
    stateFile: join(path, 's.json'),
    control: { socket: join(path, 'c.sock') },
    ports: [{ label: 'a', port: ownPort, protocol: 'http' }],
  }
  const child = spawn(process.execPath, ['dist/supervisor.js'], {
    env: supervisorEnv(database, config),
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  t.teardown(() => child.kill('SIGKILL'))
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
      ['heap-snapshot', 1],
      ['cpu-profile', 1],
    ].map(([action_name, arity]) => ({ action_name, action_type: 'custom', arity, opts: null })),
  )
  child.kill()
  const [code] = await once(child, 'exit')
  t.is(code, 0)
})
