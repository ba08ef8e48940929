// npm run ops: JSON for scripts, tables for people, the progress of `wait`, and the exit codes.
import { createServer } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import test from 'ava'
import { commandNames } from '../../src/supervisor/command-names.ts'
import { folder } from '../support/folder.ts'
import { check, createOperator } from '../support/operator.ts'
import { connect } from '../support/raw.ts'
import { runNode, runToEnd } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

const service = await startService({ workers: 2, config: { drain: { deadlineMs: 15_000 } } })
const operator = createOperator(service)
test.after.always(() => service.stop())

/** The environment of an operator. A fault in another setting must not keep an operator from a drain. */
const envOf = (socket: string): NodeJS.ProcessEnv => {
  // Node also takes a terminal for one without colors if CI is set.
  const { NO_COLOR: _, FORCE_COLOR: __, NODE_DISABLE_COLORS: ___, CI: ____, ...env } = process.env
  return { ...env, NODE_CONFIG: JSON.stringify({ workers: 'many', control: { socket } }) }
}
const env = envOf(service.socket)
const ops = (...args: string[]) => runNode('dist/ops.js', args, env)

/** Runs a command in a pseudo terminal, with script(1) of util-linux. `stdout` has the text of the screen, also standard error. */
async function opsOnTerminal(columns: number, args: string, more: NodeJS.ProcessEnv = {}) {
  const command = `stty cols ${columns}; node dist/ops.js ${args}`
  const onScreen = { ...env, ...more, TERM: 'xterm-256color' }
  const outcome = await runToEnd('script', ['-qec', command, '/dev/null'], onScreen)
  return { ...outcome, stdout: outcome.stdout.replaceAll('\r\n', '\n') }
}

test.serial('piped: prints the reply as JSON, with the name of the user', async t => {
  const status = await ops('status')
  t.is(status.code, 0)
  t.like(JSON.parse(status.stdout), {
    command: 'status',
    ports: { http: { state: 'serving' } },
    workers: { length: 2 },
  })
  t.is(status.stderr, '')
  const { username } = userInfo()
  t.like(JSON.parse((await ops('drain', 'https')).stdout), { argument: 'https', changed: true, by: username })
  t.like(JSON.parse((await ops('resume', 'https')).stdout), { changed: true, by: username })
  const refused = await ops('resume', 'nope')
  t.is(refused.code, 1)
  t.regex(JSON.parse(refused.stdout).error, /^unknown port "nope"; the ports are http, https$/)
  const onTerminal = await opsOnTerminal(80, 'status --json')
  t.like(JSON.parse(onTerminal.stdout), { command: 'status' })
})

test.serial('terminal: tables of ports, checkers and workers that fit the width', async t => {
  const headers = {
    'X-Haproxy-Server-State': 'UP; name=http/A; node=\u009b31mproxy; weight=1/1; scur=0/0; qcur=0',
  }
  const checker = setInterval(
    () => check(operator.controlPort('http'), '/healthcheck/http', { headers }),
    1000,
  )
  t.teardown(() => clearInterval(checker))
  const state = 'UP; name=http/A; node=?31mproxy; weight=1/1; scur=0/0; qcur=0'
  await operator.until(({ ports }) => ports.http?.checkers[0]?.server_state === state)
  const [narrow, wide] = [await opsOnTerminal(80, 'status'), await opsOnTerminal(140, 'status')]
  for (const [columns, { code, stdout }] of [
    [80, narrow],
    [140, wide],
  ] as const) {
    t.is(code, 0, stdout)
    const text = stripVTControlCharacters(stdout)
    t.log(`\n${text}`)
    for (const line of text.split('\n')) t.true([...line].length <= columns, line)
    const { port } = service
    t.regex(text, new RegExp(`^http +${port('http')} .*serving .* \\d+ +\\d+ +1 +start$`, 'm'))
    t.regex(text, new RegExp(`^https +${port('https')} .*serving `, 'm'))
    t.is(text.match(/^ *\d+ +ready +\d+ (?:min|s) .* MiB +\d+ +\d+ ms$/gm)?.length, 2)
    t.regex(text, /^127\.0\.0\.1 +http +\d+ s ago +200 +UP; name=http\/A/m)
  }
  t.true(narrow.stdout.includes('\u001b[32mserving'))
  const plain = await opsOnTerminal(80, 'status', { NO_COLOR: '1' })
  t.true(plain.stdout.includes('serving'))
  t.false(plain.stdout.includes('\u001b'))
})

test.serial('terminal: every command says what it did, and errors are one line', async t => {
  const say = async (args: string, code: number, ...patterns: RegExp[]) => {
    const outcome = await opsOnTerminal(80, args)
    t.is(outcome.code, code, outcome.stdout)
    for (const pattern of patterns) t.regex(stripVTControlCharacters(outcome.stdout), pattern)
  }
  await say('drain https', 0, /^https is (draining|drained) now\n\nPORT /, /\nhttps .* dr/)
  await say('drain https:404', 0, /^https was drained already\n/)
  await say('wait https', 0, /^https is drained: it has no connection left, and no checker is known\n/)
  await say('drain https:refuse', 0, /^https is drained now\n/)
  await say(
    'wait https',
    0,
    /^https is drained: it has no connection left, and the drain delay for TCP checks is over\n/,
  )
  await say('resume https', 0, /^https is serving now\n/)
  await say('reload', 0, /^every worker has the current code and settings\n\nWORKER /)
  await say('reload-certificates', 0, /^PORT +VALID TO +SUBJECT +FING.*\nhttps +20\d\d-.*Z +CN=/)
  await say('log-level warn', 0, /^the log level is warn until the next start\n$/)
  await say('log-level loud', 1, /^users-api: unknown log level "loud"; the levels are [^\n]*\n$/)
  await say('wait http', 1, /^users-api: http is serving; run drain http first\n$/)
})

test.serial('wait: says every few seconds what it waits for, and at the deadline what is left', async t => {
  const client = await connect(service.port('http'))
  client.write(
    'POST /v1/groups HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n',
  )
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  await operator.run('drain', 'http')
  const waited = await ops('wait', 'http')
  t.is(waited.code, 0)
  t.like(JSON.parse(waited.stdout), { ended: 'deadline', connections: 1 })
  const lines = waited.stderr.trim().split('\n')
  t.true(lines.length >= 2, waited.stderr)
  for (const line of lines) t.is(line, 'users-api: http waits for 1 connection (1 request in flight)')
  const again = await opsOnTerminal(80, 'wait http')
  t.regex(
    again.stdout,
    /^http has reached the drain deadline and still waits for 1 connection \(1 request in flight\)\n/,
  )
  client.socket.destroy()
  await operator.run('resume', 'http')
})

test.serial('usage: --help explains on standard output; a mistake explains on standard error', async t => {
  for (const option of ['--help', '-h']) t.like(await ops(option), { code: 0, stderr: '' })
  const help = (await ops('status', '--help')).stdout
  for (const command of commandNames) t.true(help.includes(`\n  ${command} `))
  for (const [args, fault] of [
    [[], /^/],
    [['halt'], /^users-api: unknown command "halt"\n\n/],
    [['drain', 'http', 'https'], /^users-api: drain has more than one argument\n\n/],
    [['status', '--colour'], /^users-api: Unknown option '--colour'/],
  ] as const) {
    const { code, stdout, stderr } = await ops(...args)
    t.deepEqual([code, stdout], [2, ''])
    t.regex(stderr, fault)
    t.true(stderr.endsWith(help))
  }
})

test.serial(
  'not running: exit code 3 without a socket, and with that of a process that has died',
  async t => {
    const path = folder(t)
    for (const socket of [join(path, 'none.sock'), join(path, 'missing', 'none.sock')]) {
      const outcome = await runNode('dist/ops.js', ['status'], envOf(socket))
      t.is(outcome.code, 3)
      t.is(
        outcome.stderr,
        `users-api: the service is not running, or is starting or stopping: no process answers on ${socket}\n`,
      )
    }
    const socket = join(path, 'cut.sock')
    const server = createServer(client => client.destroy()).listen(socket)
    t.teardown(() => server.close())
    t.is(
      (await runNode('dist/ops.js', ['status'], envOf(socket))).code,
      3,
      'the supervisor exits before it replies',
    )
    const long = await runNode('dist/ops.js', ['status'], envOf(`/${'a'.repeat(200)}`))
    t.is(long.code, 78)
    t.regex(
      long.stderr,
      /^users-api: invalid settings: control\.socket: is 201 bytes long as an absolute path; /,
    )
  },
)
