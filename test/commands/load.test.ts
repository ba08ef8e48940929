// npm run load: valid and invalid files, and a service that is unavailable before or during the import.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { createClient } from '../support/http.ts'
import { apiKey } from '../support/issuer.ts'
import { claimPorts, listenOnFreePort } from '../support/ports.ts'
import { runNode } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

// Limits so low that batches must be split.
const limits = { batchEntries: 7, bodyBytes: 600, membershipsPerUser: 3 }
const service = await startService({ config: { limits } })
const api = createClient(service.url)
const folder = await mkdtemp(join(tmpdir(), 'users-api-load-'))

test.after.always(async t => {
  api.close()
  await rm(folder, { recursive: true })
  t.is(await service.stop(), 0)
})

let files = 0

/** Loads a file with this content. */
async function load(type: 'csv' | 'json', text: string | Buffer, ...args: string[]) {
  const file = join(folder, `${++files}.${type}`)
  await writeFile(file, text)
  const outcome = await runNode('dist/load.js', [file, '--url', service.url, ...args])
  const counts = [...outcome.stdout.matchAll(/^ {2}(\w+) +(\d+) created, (\d+) unchanged, (\d+) failed$/gm)]
  return {
    ...outcome,
    file,
    counts: Object.fromEntries(counts.map(([, what = '', ...numbers]) => [what, numbers.map(Number)])),
  }
}

/** The groups of the only user with this last name. */
async function groupsOf(t: ExecutionContext, lastName: string): Promise<(string | undefined)[] | undefined> {
  const { users = [] } = (
    await api.get(`/v1/users?include=groups&${new URLSearchParams({ last_name: lastName })}`)
  ).body
  t.is(users.length, 1, lastName)
  return users[0]?.groups?.map(({ name }) => name)
}

test.serial(
  'csv: quotes, line breaks in values and several groups; a second load adds only new records',
  async t => {
    const text = [
      '\ufefflast_name,groups,first_name',
      '" O""Neil, junior ",Chess; Choir, Ada ',
      '"Zoë\n茶","",',
      'Watson 🕷,Chess,!Mary',
      'Watson 🕷,Choir,!Mary',
      ...Array.from({ length: 30 }, (_, index) => `Many ${index},,\\x`),
      '',
    ].join('\r\n')
    const first = await load('csv', text)
    t.is(first.code, 1)
    t.deepEqual(first.counts, { users: [32, 1, 1], groups: [2, 0, 0], memberships: [4, 0, 0] })
    t.regex(
      first.stderr,
      /^line 4: "" "Zoë\\n茶": first_name: must be 1 to 255 characters long; last_name: .*$/m,
    )
    t.deepEqual(await groupsOf(t, 'O"Neil, junior'), ['Chess', 'Choir'])
    t.deepEqual(await groupsOf(t, 'Watson 🕷'), ['Chess', 'Choir'])

    const again = await load('csv', text.replace('Chess; Choir', 'Choir;Tea 茶'))
    t.deepEqual(again.counts, { users: [0, 33, 1], groups: [1, 2, 0], memberships: [1, 3, 0] })
    t.deepEqual(await groupsOf(t, 'O"Neil, junior'), ['Chess', 'Choir', 'Tea 茶'])
  },
)

const spreadsheets = {
  'with semicolons': Buffer.from('\ufefffirst_name;last_name;groups\r\nA;Semi, colon;"S1;S2"\r\n'),
  'with tabs': Buffer.from('first_name\tlast_name\tgroups\nA\tTab;\tS1;S2\n'),
  'as "Unicode text"': Buffer.from(
    '\ufefffirst_name\tlast_name\tgroups\r\nÄ\tUnicode 茶\tS1;S2\r\n',
    'utf16le',
  ),
}
for (const [title, text] of Object.entries(spreadsheets))
  test.serial(`csv: spreadsheet ${title}`, async t => {
    const { code, counts, stderr } = await load('csv', text)
    t.is(code, 0, stderr)
    t.like(counts, { users: [1, 0, 0], memberships: [2, 0, 0] })
    const name = title === 'with tabs' ? 'Tab;' : title === 'with semicolons' ? 'Semi, colon' : 'Unicode 茶'
    t.deepEqual(await groupsOf(t, name), ['S1', 'S2'])
  })

test.serial('failures: printed with place and reason, the other entries are loaded', async t => {
  const users = [
    { first_name: 'a', last_name: 'x'.repeat(256) },
    { first_name: 'a', last_name: 'y'.repeat(1000) },
    { first_name: 'a', last_name: 'four', groups: ['g1', 'g2', ' ', 'g3', 'g4', 'g5'] },
  ]
  const { code, counts, stderr } = await load(
    'json',
    `{"groups": ["alone"], "users": [\n${users.map(user => JSON.stringify(user)).join(',\n')}]}`,
  )
  t.is(code, 1)
  t.deepEqual(counts, { users: [1, 0, 2], groups: [6, 0, 1], memberships: [3, 0, 3] })
  t.regex(stderr, /^users\[0\]: "a" "x+…": last_name: must be 1 to 255 characters long$/m)
  t.regex(stderr, /^users\[1\]: "a" "y+…": the body exceeds the limit of 600 bytes$/m)
  t.regex(stderr, /^group " ": name: must not consist only of white space$/m)
  t.regex(
    stderr,
    /^users\[2\]: "a" "four": group "g4": a user can have at most 3 groups\n.*: group "g5": a user .*$/m,
  )
  t.deepEqual(await groupsOf(t, 'four'), ['g1', 'g2', 'g3'])
})

test.serial('memberships: one request for each group, or for each user where those are fewer', async t => {
  const paths = new Set<string>()
  const front = http.createServer((request, response) => {
    const { method, url = '', headers } = request
    if (method === 'POST') paths.add(url.replace(/\/\d+/, '/<id>'))
    request.pipe(
      http.request(`${service.url}${url}`, { method, headers, agent: false }, answer => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      }),
    )
  })
  const port = await listenOnFreePort(front)
  t.teardown(() => front.close())
  const url = ['--url', `http://127.0.0.1:${port}`]

  // More users than fit into a batch, each in one group more than it can be.
  const rows = Array.from({ length: limits.batchEntries + 2 }, (_, index) => `Of,four ${index},4a;4b;4c;4d`)
  const many = await load('csv', ['first_name,last_name,groups', ...rows].join('\n'), ...url)
  t.is(many.code, 1)
  t.deepEqual(many.counts.memberships, [27, 0, 9])
  const failures = many.stderr.split('\n').filter(line => line !== '')
  t.is(failures.length, rows.length)
  for (const [index, line] of failures.entries()) {
    const start = `line ${index + 2}: "Of" "four ${index}": group "4`
    t.is(line.replace(/4[abcd]/, '4'), `${start}": a user can have at most 3 groups`)
  }
  t.true(paths.has('/v1/groups/<id>/users'))
  t.false(paths.has('/v1/users/<id>/groups'))

  const few = await load('csv', 'first_name,last_name,groups\nOf,many,5a;5b;5c', ...url)
  t.deepEqual(few.counts.memberships, [3, 0, 0])
  t.true(paths.has('/v1/users/<id>/groups'))
})

test.serial('csv: rows with too few or too many columns fail, the others are loaded', async t => {
  const { code, counts, stderr } = await load(
    'csv',
    'first_name, last_name, groups\nRows, before,\nRows, short\nRows, of, many, columns\n,,\nRows, "after"," "\n',
  )
  t.is(code, 1)
  t.deepEqual(counts.users, [2, 0, 2])
  t.deepEqual(stderr.split('\n'), [
    'line 3: 2 columns instead of 3: a value with a separator must be in quotes',
    'line 4: 4 columns instead of 3: a value with a separator must be in quotes',
    '',
  ])
  t.is(await api.count('/v1/users?first_name=Rows'), 2)
})

test.serial('invalid file: rejected with the place of the fault, nothing is loaded', async t => {
  const before = await api.count('/v1/users')
  const columns = 'line 1: the columns must be first_name, last_name and optionally groups, .* but are'
  const notUtf8 = 'invalid UTF-8: save the file as UTF-8$'
  const csv: [string | Buffer, string][] = [
    ['', `${columns} missing`],
    ['first_name,last_name,age\n', `${columns} first_name, last_name, age`],
    ['first_name,last_name,first_name\n', `${columns} .*, first_name$`],
    ['PK\x03\x04\x14', 'not a text file: save a spreadsheet as CSV'],
    ['first_name,last_name\nLate,quote\na,"b\nc,d\n', 'the row that begins on line 3: Quote Not Closed: '],
    [
      `first_name,last_name\nLate,size\na,"${'x\n'.repeat(2 ** 20)}"\n`,
      'the row that begins on line 3: Max Record Size: ',
    ],
    [
      'first_name,last_name\nLate,closing\na,"b\nc,"d"\n',
      'the row that begins on line 3: Invalid Closing Quote: got "d" at line 4 ',
    ],
    ['first_name,last_name\nMary "May",Smith\n', 'line 2: Invalid Opening Quote: '],
    [Buffer.from('first_name,last_name\na,b\nJürgen,c\n', 'latin1'), `line 3: ${notUtf8}`],
  ]
  const json: [string | Buffer, string][] = [
    ['', ': Unexpected end of JSON input$'],
    [
      '{"users": [\n{"first_name": "a" "last_name": "b"}]}',
      ": Expected ',' or '}' after property value in JSON at position 31",
    ],
    ["{'users': []}", ": Expected property name or '}' in JSON at position 1"],
    [
      '{"users": [\n{"first_name": "b", "last_name": "b", "groups": [{}]}]}',
      ': users\\[0\\]\\.groups\\[0\\]: Invalid input: expected string, received object$',
    ],
    [
      '[{"first_name": "a", "last_name": "b"}]',
      ': the file: Invalid input: expected object, received array$',
    ],
    ['{}', ': users: Invalid input: expected array, received undefined$'],
    ['{"users": [], "grous": []}', ': the file: Unrecognized key: "grous"$'],
    ['{"users": [], "\u009bm": []}', ': the file: Unrecognized key: "\\?m"$'],
    [Buffer.from('{"groups": ["\n\xe9"]}', 'latin1'), `line 2: ${notUtf8}`],
  ]
  const invalid = [
    ...csv.map(([text, reason]) => ({ type: 'csv', text, reason }) as const),
    ...json.map(([text, reason]) => ({ type: 'json', text, reason }) as const),
  ]
  for (const { type, text, reason } of invalid) {
    const { code, file, stderr } = await load(type, text)
    t.is(code, 65, stderr)
    t.true(stderr.startsWith(`users-api: ${file}: `), stderr)
    t.regex(stderr, new RegExp(reason, 'm'))
    t.is(stderr.trim().split('\n').length, 1)
  }
  t.is(await api.count('/v1/users'), before)
  const missing = await runNode('dist/load.js', [join(folder, 'none.csv'), '--url', service.url])
  t.is(missing.code, 65)
  t.regex(missing.stderr, /none\.csv: ENOENT: no such file/)
  const unknown = await runNode('dist/load.js', [folder, '--url', service.url])
  t.is(unknown.code, 65)
  t.true(unknown.stderr.startsWith(`users-api: ${folder} must end in .json or .csv`), unknown.stderr)
})

test.serial(
  'invalid file: the first faults of a JSON file are printed with their places, the others counted',
  async t => {
    const users = [
      null,
      { first_name: null, last_name: [], age: 5 },
      ...Array.from({ length: 5 }, () => ({})),
    ]
    const text = `{"users": [\n${users.map(user => JSON.stringify(user)).join(',\n')}]}`
    const { code, file, stderr } = await load('json', text)
    t.is(code, 65)
    t.deepEqual(stderr.split('\n'), [
      `users-api: ${file}: users[0]: Invalid input: expected object, received null`,
      '  users[1].first_name: Invalid input: expected string, received null',
      '  users[1].last_name: Invalid input: expected string, received array',
      '  users[1]: Unrecognized key: "age"',
      ...[2, 3, 4].flatMap(index =>
        ['first_name', 'last_name'].map(
          name => `  users[${index}].${name}: Invalid input: expected string, received undefined`,
        ),
      ),
      '  and 4 more',
      '',
    ])
  },
)

test.serial('command line: usage, the default URL, and a URL without this service', async t => {
  const faults: [string[], RegExp][] = [
    [[], /^usage: /],
    [['a.csv', 'b.csv'], /^users-api: only one file/],
    [['a.csv', '--url', 'localhost:8000'], /^users-api: --url must be a URL such as http:/],
    [
      ['a.csv', '--url', 'http://ada:secret@localhost:8000'],
      /^users-api: --url must not contain .* password/,
    ],
    [['a.csv', '--colour'], /^users-api: Unknown option '--colour'/],
    [['a', '--patience', '1.5'], /^users-api: --patience must be a whole number of seconds\n\nusage: /],
  ]
  for (const [args, expected] of faults) {
    const { code, stdout, stderr } = await runNode('dist/load.js', args)
    t.deepEqual([code, stdout], [2, ''], args.join())
    t.regex(stderr, expected)
    t.notRegex(stderr, /secret/)
  }
  t.like(await runNode('dist/load.js', ['--help']), { code: 0, stderr: '' })
  const { file } = await load('json', '{"users": []}')
  const NODE_CONFIG = JSON.stringify({
    ports: [{ label: 'a', port: service.port('http'), protocol: 'http' }],
  })
  t.is((await runNode('dist/load.js', [file], { ...process.env, NODE_CONFIG })).code, 0)
  const behindProxies = JSON.stringify({
    ports: [{ label: 'a', port: service.port('http'), protocol: 'http', proxyProtocol: true }],
    proxies: { trusted: ['127.0.0.1'] },
  })
  const refused = await runNode('dist/load.js', [file], { ...process.env, NODE_CONFIG: behindProxies })
  t.is(refused.code, 2)
  t.regex(refused.stderr, /^users-api: every port expects the PROXY protocol: set --url to /)
  const advice: [string, RegExp][] = [
    [service.controlUrl, /responds with 400 /],
    [`${service.url}/v1`, /responds with 404 /],
    [service.httpsUrl, /certificate/],
    [service.url.replace('http:', 'https:'), /wrong version number/],
    ['http://127.0.0.1:9', /bad port/],
  ]
  for (const [url, expected] of advice) {
    const away = await runNode('dist/load.js', [file, '--url', url])
    t.is(away.code, 69)
    t.regex(away.stderr, /^users-api: https?:\S+: /)
    t.regex(away.stderr, expected)
    t.regex(
      away.stderr,
      /: start the service \(npm start\), or set --url to the URL of its data port, such as .*\n$/,
    )
  }
})

test.serial('retries: after a lost response and a 503, until the timeout', async t => {
  let requests = 0
  let goneFrom = Infinity
  const front = http.createServer((request, response) => {
    const number = ++requests
    if (number >= goneFrom) return void request.socket.destroy()
    if (number % 4 === 2) {
      response.writeHead(503, { 'Retry-After': '0' }).end('{"meta": {"status": 503, "message": "busy"}}')
      return
    }
    const { method, url, headers } = request
    const outgoing = http.request(`${service.url}${url}`, { method, headers, agent: false }, answer => {
      // The service has carried out the request, but the client receives no response.
      if (number % 4 === 3) return void answer.resume().on('end', () => request.socket.destroy())
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    request.pipe(outgoing)
  })
  const port = await listenOnFreePort(front)
  t.teardown(() => front.close())
  const text = `first_name,last_name,groups\n${Array.from({ length: 6 }, (_, index) => `Lost ${index},Answer,Lost`).join('\n')}`
  const through = await load('csv', text, '--url', `http://127.0.0.1:${port}`)
  t.is(through.code, 0, through.stderr)
  t.regex(through.stderr, /^waiting up to 60 s for http:.*: busy$/m)
  t.is(await api.count('/v1/users?last_name=Answer'), 6)
  t.is(await api.count('/v1/users?groups[*].name=Lost'), 6)

  goneFrom = requests + 2
  const gone = await load('csv', text, '--url', `http://127.0.0.1:${port}`, '--patience', '1')
  t.is(gone.code, 69)
})

test.serial('retries: an unavailable service is waited for, up to --patience', async t => {
  const ports = await claimPorts()
  t.teardown(ports.release)
  const url = `http://127.0.0.1:${ports.first}`
  const { file, ...gone } = await load('json', '{"users": []}', '--url', url, '--patience', '2')
  t.is(gone.code, 69)
  const [waits, ends, ...more] = gone.stderr.split('\n')
  t.is(waits, `waiting up to 2 s for ${url}: connect ECONNREFUSED 127.0.0.1:${ports.first}`)
  t.regex(ends ?? '', /^users-api: http:.*: connect ECONNREFUSED .*: start the service \(npm start\)/)
  t.deepEqual(more, [''])

  const child = spawn(process.execPath, ['dist/load.js', file, '--url', url])
  const closed = once(child, 'close')
  await once(child.stderr, 'data')
  // A proxy answers before the service is available.
  const refusals = [
    '<html>',
    '{"meta": {"status": 502, "code": "unavailable", "message": "no node is available"}}',
  ]
  const proxy = http.createServer((_, response) => {
    const refusal = refusals.shift()
    if (refusal === undefined) response.end('{"meta": {"status": 200}}')
    else response.writeHead(502).end(refusal)
  })
  t.teardown(() => proxy.close())
  proxy.listen(ports.first, '127.0.0.1')
  t.deepEqual(await closed, [0, null])
})

/** Starts a server that accepts requests and does not answer. */
async function startSilent(t: ExecutionContext) {
  const server = http.createServer()
  const port = await listenOnFreePort(server)
  t.teardown(() => server.close())
  return { server, url: `http://127.0.0.1:${port}` }
}

test.serial('retries: a service that does not answer is given up after --patience', async t => {
  const { url } = await startSilent(t)
  const { code, stderr } = await load('json', '{"users": []}', '--url', url, '--patience', '0')
  t.is(code, 69)
  t.regex(stderr, /timeout: start the service/)
})

/** Starts a proxy in front of the service. @param answerFor returns the status, headers and text of its own answer */
async function startProxy(
  t: ExecutionContext,
  answerFor: (request: http.IncomingMessage) => [number, http.OutgoingHttpHeaders, string] | undefined,
): Promise<string> {
  const proxy = http.createServer((request, response) => {
    const answer = answerFor(request)
    if (answer !== undefined) {
      const [status, headers, text] = answer
      return void request.resume().on('end', () => response.writeHead(status, headers).end(text))
    }
    const { method, url, headers } = request
    const outgoing = http.request(`${service.url}${url}`, { method, headers, agent: false }, answer => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    request.pipe(outgoing)
  })
  t.teardown(() => proxy.close())
  return `http://127.0.0.1:${await listenOnFreePort(proxy)}`
}

test.serial('redirect: a POST is not sent again as a GET, and the new address is named', async t => {
  const url = await startProxy(t, ({ url }) => [301, { Location: `${service.url}${url}` }, ''])
  const { code, stderr } = await load('csv', 'first_name,last_name\nRe,Direct\n', '--url', url)
  t.is(code, 69)
  t.regex(
    stderr,
    new RegExp(`redirects to ${service.url}/v1/groups\\?.*: .*set --url to the URL of its data port`),
  )
  t.is(await api.count('/v1/users?last_name=Direct'), 0)
})

test.serial('retries: after 429, and a look-up that fails is reported with its own reason', async t => {
  const text = 'first_name,last_name\nRate,Limit\n'
  t.is((await load('csv', text)).code, 0)
  const bodies = [
    '{"meta": {"status": 429, "code": "limited", "message": "too many requests"}}',
    '<h1>429 Too Many Requests</h1>',
  ]
  for (const body of bodies) {
    const seen = new Set<string>()
    const limited = await startProxy(t, ({ method, url = '' }) => {
      const request = `${method} ${url}`
      if (seen.has(request)) return undefined
      seen.add(request)
      return [429, {}, body]
    })
    const late = await load('csv', text, '--url', limited)
    t.deepEqual([late.code, late.counts.users], [0, [0, 1, 0]], late.stderr)
  }

  const refusing = await startProxy(t, ({ method, url = '' }) =>
    method === 'GET' && url.startsWith('/v1/users')
      ? [400, {}, '{"meta": {"status": 400, "code": "refused", "message": "not this one"}}']
      : undefined,
  )
  const refused = await load('csv', text, '--url', refusing)
  t.deepEqual([refused.code, refused.counts.users], [1, [0, 0, 1]])
  t.regex(refused.stderr, /^line 2: "Rate" "Limit": not this one$/m)
})

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  test.serial(`interruption: ${signal} prints that the command can be repeated to continue`, async t => {
    const { server, url } = await startSilent(t)
    const { file } = await load('json', '{"users": []}')
    const child = spawn(process.execPath, ['dist/load.js', file, '--url', url])
    let printed = ''
    child.stderr.setEncoding('utf8').on('data', text => (printed += text))
    await once(server, 'request')
    child.kill(signal)
    t.deepEqual(await once(child, 'close'), [130, null])
    t.is(printed, 'users-api: interrupted: run the command again to continue\n')
  })

test.serial(
  'token: a service with callers is loaded with USERS_API_TOKEN, and refuses other tokens',
  async t => {
    const keys = [apiKey('writer', 'write', 'writer-token'), apiKey('reader', 'read', 'reader-token')]
    const guarded = await startService({ config: { auth: { keys } } })
    t.teardown(() => guarded.stop())
    const file = join(folder, 'guarded.json')
    await writeFile(file, '{"users": [{"first_name": "a", "last_name": "guarded", "groups": ["g"]}]}')
    const run = (token?: string) => {
      const { USERS_API_TOKEN: _, ...env } = process.env
      return runNode('dist/load.js', [file, '--url', guarded.url], {
        ...env,
        ...(token !== undefined && { USERS_API_TOKEN: token }),
      })
    }
    const advice = ': set USERS_API_TOKEN to an API key or a JWT with the scope write, then load again'
    for (const [token, reason] of [
      [undefined, 'the request has no token: send it as Authorization: Bearer <token>'],
      ['', 'the request has no token: send it as Authorization: Bearer <token>'],
      ['another', 'the token is not known'],
      ['reader-token', 'this request needs the scope users:write, which the token does not have'],
    ] as const) {
      const { code, stderr } = await run(token)
      t.deepEqual([code, stderr], [77, `users-api: ${guarded.url}: ${reason}${advice}\n`])
    }
    t.like(await run('with\nline'), {
      code: 78,
      stderr: 'users-api: invalid settings: USERS_API_TOKEN: must contain only visible ASCII characters\n',
    })
    const { code, stdout, stderr } = await run('writer-token')
    t.is(code, 0, stderr)
    t.regex(stdout, /users +1 created.*memberships +1 created/s)
  },
)
