// The configuration: defaults, error messages, and the exit code for invalid settings.
import { spawnSync } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import test from 'ava'
import { ConfigError, loadConfig, parseConfig } from '../../../src/config/config.ts'
import { root } from '../../../src/config/root.ts'
import { folder } from '../../support/folder.ts'

const supervisor = fileURLToPath(new URL('../../../dist/supervisor.js', import.meta.url))

/** Starts the supervisor with these settings and returns its exit code and output. */
function start(settings: string, env: NodeJS.ProcessEnv = {}) {
  const { DATABASE_URL: _, ...others } = process.env
  const { status, stderr } = spawnSync(process.execPath, [supervisor], {
    env: { ...others, NODE_CONFIG: settings, ...env },
    encoding: 'utf8',
    timeout: 20_000,
  })
  return { status, stderr }
}

test('configuration: the defaults are complete, and paths are absolute', async t => {
  const config = await loadConfig()
  t.is(config.ports.length, 2)
  t.true(config.stateFile.startsWith('/'))
  t.is(config.node, hostname())
})

test('configuration: relative paths begin in the folder of the project, not in that of the process', async t => {
  const { production, ...settings } = await loadConfig()
  const auth = { keys: [], jwt: { jwks: 'keys.json', issuer: 'a', audience: 'a' } }
  const before = process.cwd()
  process.chdir(folder(t))
  try {
    const config = parseConfig({ ...settings, stateFile: 'state.json', auth }, production)
    t.is(config.stateFile, join(root, 'state.json'))
    t.is(config.auth.jwt?.jwks, pathToFileURL(join(root, 'keys.json')).href)
  } finally {
    process.chdir(before)
  }
})

test('configuration: the names of hosts are in lower case', async t => {
  const { production, ...settings } = await loadConfig()
  t.deepEqual(parseConfig({ ...settings, hosts: ['Users.TEST'] }, production).hosts, ['users.test'])
})

test('configuration: all errors are reported together', async t => {
  const raw = { ...(await loadConfig()), production: undefined }
  const faultsOf = (change: object, production = false): readonly string[] => {
    const { production: _, ...settings } = raw
    const error = t.throws(() => parseConfig({ ...settings, ...change }, production), {
      instanceOf: ConfigError,
    })
    return error.faults
  }
  const faults = faultsOf({ host: 7, workers: 0, limits: { ...raw.limits, filters: -1 }, colour: 'red' })
  t.deepEqual([...faults].sort(), [
    'colour: is not a setting; config/default.json lists all settings',
    'host: must be a string',
    'limits.filters: must be at least 0',
    'workers (WORKERS): must be "auto" or an integer from 1 to 9999',
  ])
  for (const workers of ['many', '0', '10000', 10_000, null])
    t.deepEqual(faultsOf({ workers }), ['workers (WORKERS): must be "auto" or an integer from 1 to 9999'])
  t.deepEqual(faultsOf({ ports: [] }), ['ports: must not be empty'])
  t.deepEqual(
    faultsOf({ hosts: ['a.test', 'a.test:80', 'b.test.', ''] }),
    [1, 2, 3].map(index => `hosts.${index}: must be a host name without a port, such as users.example.com`),
  )
  const noBrackets = 'must be an address without brackets or a host name, such as ::1'
  t.deepEqual(faultsOf({ host: '[::]', control: { ...raw.control, host: '[::1]' } }), [
    `host: ${noBrackets}`,
    `control.host: ${noBrackets}`,
  ])
  t.deepEqual(faultsOf({ node: '' }), ['node (NODE_NAME): must not be empty'])
  t.deepEqual(faultsOf({ ports: [{ label: 'a/b', port: 70_000, protocol: 'ftp' }, 7] }), [
    'ports.0.label: must contain only letters, digits, ".", "-" and "_", and start with a letter or a digit',
    'ports.0.port: must be at most 65535',
    'ports.0.protocol: must be http or https',
    'ports.1: must be an object',
  ])
  t.deepEqual(faultsOf({ cache: { ...raw.cache, url: 'http://a' }, log: { level: 'loud' } }), [
    'cache.url (REDIS_URL): must be a URL that starts with redis:// or rediss:// or redis+sentinel:// or rediss+sentinel:// or redis+unix://; several hosts are separated by commas: redis://user:password@host:port,host:port',
    'log.level (LOG_LEVEL): must be trace, debug, info, warn, error, fatal or silent',
    'log.requests: is missing',
    'log.client: must be full, prefix or off',
  ])
  t.deepEqual(faultsOf({ limits: { ...raw.limits, responseBytes: 6 * 2 ** 20 + 4_095_999 } }), [
    'limits.responseBytes: must be at least 6 * limits.bodyBytes + 4096 * limits.batchEntries, the largest response to a batch',
  ])
  t.deepEqual(faultsOf({ limits: { ...raw.limits, waitingBytes: 2 ** 23 - 1 } }), [
    'limits.waitingBytes: must be at least 8388608',
  ])
  const { responseBytes } = raw.limits
  t.deepEqual(faultsOf({ limits: { ...raw.limits, unreadBytes: responseBytes + 4095 } }), [
    'limits.unreadBytes: must be at least limits.responseBytes + 4096, so that a client can read a response of that size',
  ])
  t.deepEqual(faultsOf({ limits: { ...raw.limits, responseBytes: 2 ** 29 } }), [
    'limits.responseBytes: must be at most 536870888',
    'limits.unreadBytes: must be at least limits.responseBytes + 4096, so that a client can read a response of that size',
  ])
  const trusted = [
    '10.0.0.0/8',
    '::1',
    '2001:db8::/32',
    '10.0.0.1/32',
    '::1/128',
    '10.0.0.0/33',
    '::/129',
    'a.test',
    '1.2.3.4/',
    '1.2.3.4/8/8',
    'fe80::1%eth0',
  ]
  const network = 'must be an IP address or a network, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32'
  t.deepEqual(
    faultsOf({ proxies: { trusted } }),
    [5, 6, 7, 8, 9, 10].map(index => `proxies.trusted.${index}: ${network}`),
  )
  const sha256 = '0'.repeat(64)
  const keys = [
    { name: 'a', sha256, scope: 'read' },
    { name: 'a', sha256: sha256.replace('0', '1'), scope: 'write' },
    { name: 'b', sha256, scope: 'read' },
    { name: 'b c', sha256: 'secret', scope: 'all' },
  ]
  t.deepEqual(faultsOf({ auth: { keys, jwt: { jwks: 'ftp://a/b', issuer: '' } } }), [
    'auth.keys.3.name: must be 1 to 100 letters, digits, ".", "-", "_" and "@", and start with a letter or a digit',
    'auth.keys.3.sha256: must be 64 hexadecimal digits in lower case; `npm run key` prints them',
    'auth.keys.3.scope: must be read or write',
    'auth.jwt.jwks: must be the path of a file, or a URL that starts with https:// or http://',
    'auth.jwt.issuer: must not be empty',
    'auth.jwt.audience: is missing',
  ])
  for (const jwks of ['https://alice:secret@a/b', 'http://alice@a/b', 'https://:secret@a/b'])
    t.deepEqual(faultsOf({ auth: { keys: [], jwt: { jwks, issuer: 'a', audience: 'a' } } }), [
      'auth.jwt.jwks: must not contain a user name or a password: the keys of an issuer are public',
    ])
  t.deepEqual(faultsOf({ auth: { keys: keys.slice(0, 3), jwt: null } }), [
    'auth.keys.2.sha256: is already the hash of another key in the list; each key must have its own token',
  ])
  const twice = [
    { label: 'a', port: 8000, protocol: 'http' },
    { label: 'a', port: 8001, protocol: 'http' },
  ]
  t.deepEqual(faultsOf({ host: 7, ports: twice }), [
    'host: must be a string',
    'ports: the label a is used twice; labels must be unique',
    'ports: 8001 is used for both the control port of a and the data port a',
  ])
  t.deepEqual(faultsOf({ ports: [{ label: 'a', port: 65_535, protocol: 'http' }] }), [
    'ports: the control port of a is 65536; the maximum is 65535',
  ])
  t.deepEqual(faultsOf({ limits: { ...raw.limits, receivingBytes: raw.limits.bodyBytes - 1 } }), [
    'limits.receivingBytes: must be at least limits.bodyBytes, so that a body of that size can be received',
  ])
  t.deepEqual(faultsOf({ fleet: { ...raw.fleet, silentMs: 2 * raw.fleet.beatMs } }), [
    'fleet.silentMs: must be more than twice fleet.beatMs, so that one late heartbeat does not kill a healthy worker',
  ])
  const timeouts = { ...raw.timeouts, headersMs: 2, requestMs: 1 }
  t.regex(faultsOf({ timeouts }).join(), /^timeouts.headersMs/)
  for (const limit of ['headersMs', 'requestMs', 'keepAliveMs'])
    t.regex(
      faultsOf({ timeouts: { ...raw.timeouts, [limit]: 0 } }).join(),
      new RegExp(`^timeouts.${limit}: must be at least 1`),
    )
  t.deepEqual(faultsOf({ timeouts, fleet: { ...raw.fleet, silentMs: 1 }, workers: 0 }).length, 3)
  // Whatever is wrong with the settings beside them.
  t.deepEqual(
    faultsOf({
      limits: { ...raw.limits, filters: '', header: 1, receivingBytes: 1, responseBytes: 1, unreadBytes: 1 },
      timeouts: { headersMs: 2, requestMs: 1, keepAliveMs: null },
      fleet: { ...raw.fleet, silentMs: 1, bootMs: undefined },
      ports: twice,
      control: { ...raw.control, socket: '', port: 1 },
      proxies: { ...raw.proxies, header: 'Forwarded' },
    }).map(fault => fault.split(':', 1)[0]),
    [
      ...['control.socket', 'control.port'],
      ...[
        'limits.filters',
        'limits.header',
        'limits.receivingBytes',
        'limits.responseBytes',
        'limits.unreadBytes',
      ],
      ...['timeouts.keepAliveMs', 'timeouts.headersMs', 'fleet.bootMs', 'fleet.silentMs', 'proxies.header'],
      ...['ports', 'ports'],
    ],
  )
  t.deepEqual(faultsOf({ limits: { ...raw.limits, bodyBytes: '', batchEntries: null }, fleet: 7 }), [
    'limits.bodyBytes: must be a number',
    'limits.batchEntries: is missing',
    'fleet: must be an object',
  ])
  const behindProxy = [{ label: 'a', port: 8000, protocol: 'http', proxyProtocol: true }]
  t.deepEqual(faultsOf({ ports: behindProxy, host: 7 }), [
    'host: must be a string',
    'ports: a has proxyProtocol, so proxies.trusted must contain the addresses of its proxies',
  ])
  t.deepEqual(faultsOf({ ports: behindProxy, proxies: { trusted: ['::1'] }, host: 7 }), [
    'host: must be a string',
  ])
  t.deepEqual(faultsOf({ ports: [{ ...behindProxy[0], proxyProtocol: 2 }] }), [
    'ports.0.proxyProtocol: must be true or false',
  ])
  const withCertificate = { label: 'a', port: 8000, protocol: 'http', certificate: 'a', key: 'a' }
  t.deepEqual(faultsOf({ ports: [withCertificate] }), [
    'ports: a must not have a certificate, because its protocol is http',
  ])
  const https = { label: 'a', port: 8000, protocol: 'https' }
  for (const half of [{ certificate: 'a' }, { key: 'a' }])
    t.deepEqual(faultsOf({ ports: [{ ...https, ...half }] }), [
      'ports: a needs both a certificate and a key, or neither',
    ])
  t.regex(faultsOf({}, true).join(), /https needs a certificate and a key in production/)
  const socket = `/${'a'.repeat(101)}é`
  t.deepEqual(faultsOf({ control: { ...raw.control, socket } }), [
    'control.socket: is 104 bytes long as an absolute path; the maximum for a Unix socket is 103: set a shorter one, or move the folder of the project',
  ])
  t.deepEqual(faultsOf({ control: { ...raw.control, offset: 2 } }), ['control.offset: must be 1 or 8000'])
  for (const hosts of ['a,', 'a,,b', 'a:x,b', 'a b,c', 'u@,a'])
    t.regex(
      faultsOf({ database: { ...raw.database, url: `mysql://${hosts}/users` } }).join(),
      /^database\.url \(DATABASE_URL\): must be a URL that starts with mysql:\/\/; several hosts/,
    )
  for (const [rest, fault] of [
    ['u:100%@a/users', /: must have a percent-encoded user, password and database name; write a % as %25$/],
    ['u:secret#1@a/users', /^[^,]*: must not contain a #; write it as %23$/],
    ['a/users#1', /^[^,]*: must not contain a #; write it as %23$/],
    ['a,b/us%ers', /: must have a percent-encoded user, password and database name; /],
    ['a/users/', /: must include the database name: /],
    ['a//users', /: must include the database name: /],
    ['a/users?ssl={"key":"secret"', /^[^{]*: must have a JSON object as its parameter ssl, [^,]*$/],
    ['a/users?ssl=secret', /^[^{]*: must have a JSON object as its parameter ssl, [^,]*$/],
    ['a/users?ssl-mode=REQUIRED', /: can have only the parameters ssl and socketPath; for TLS: [^,]*$/],
    ['a/users?ssl={}&ssl=secret', /^[^{]*: must have a JSON object as its parameter ssl, [^,]*$/],
    ['u%@a/users', /: must have a percent-encoded user, password and database name; write a % as %25$/],
    ['a/users?ssl=true', /^[^{]*: must have a JSON object as its parameter ssl, [^,]*$/],
    // The driver would connect without TLS.
    ['a/users?ssl=null', /^[^{]*: must have a JSON object as its parameter ssl, [^,]*$/],
  ] as const)
    t.regex(faultsOf({ database: { ...raw.database, url: `mysql://${rest}` } }).join(), fault)
  t.deepEqual(faultsOf({ ports: [{ label: 'toString', port: 8000, protocol: 'http' }] }), [
    'ports.0.label: must not be the name of a property that every object has',
  ])
  t.deepEqual(faultsOf({ ports: [{ label: 'error', port: 8000, protocol: 'http' }] }), [
    'ports.0.label: must not be command, argument or error',
  ])
  // The time of a stop is longer, and must not exceed that of a timer.
  t.deepEqual(faultsOf({ drain: { ...raw.drain, deadlineMs: 2 ** 31 - 1 } }), [
    'drain.deadlineMs: must be at most 86400000',
  ])
  // Timers, the database, Redis and Node.js's parser accept no greater values, and the pool no 0.
  const huge = Number.MAX_SAFE_INTEGER
  t.deepEqual(
    faultsOf({
      database: { ...raw.database, acquireTimeoutMs: 0 },
      cache: { ...raw.cache, ttlSeconds: huge, timeoutMs: 2 ** 31 - 1 },
      idempotency: { keepSeconds: huge, removeEveryMs: 0 },
      certificates: { readEveryMs: 0 },
      changes: { keepSeconds: huge },
      limits: { ...raw.limits, urlBytes: huge, headerBytes: huge },
      timeouts: { ...raw.timeouts, keepAliveMs: 2 ** 31 - 1 },
    }),
    [
      'database.acquireTimeoutMs: must be at least 1',
      'cache.ttlSeconds: must be at most 3155760000',
      'cache.timeoutMs: must be at most 86400000',
      'idempotency.keepSeconds: must be at most 3155760000',
      'idempotency.removeEveryMs: must be at least 1',
      'changes.keepSeconds: must be at most 3155760000',
      'certificates.readEveryMs: must be at least 1',
      'limits.urlBytes: must be at most 65536',
      'limits.headerBytes: must be at most 1073741824',
      'timeouts.keepAliveMs: must be at most 86400000',
    ],
  )
  const { production: _, ...settings } = raw
  for (const rest of [
    'a:3306,b:3307/users',
    'u:p,w@a,[::1]:3306/users',
    'me@localhost/users?socketPath=/a',
    'me@a,b/users?ssl={"ca":"a","rejectUnauthorized":true}',
    'me@a/users?ssl=Amazon%20RDS',
    'me@a/users?ssl=false',
  ]) {
    const database = { ...raw.database, url: `mysql://${rest}` }
    t.is(parseConfig({ ...settings, database }, false).database.url, database.url)
  }
  // WORKERS is a text.
  t.is(parseConfig({ ...settings, workers: '4' }, false).workers, 4)
  const sameTime = { ...raw.timeouts, headersMs: raw.timeouts.requestMs }
  const ports = [{ ...https, certificate: 'a', key: 'b' }]
  t.notThrows(() => parseConfig({ ...settings, timeouts: sameTime, ports }, true))
})

test('configuration: an error ends the supervisor with exit code 78; the message contains no password', t => {
  const faulty = start('{"workers": "many", "limits": {"filters": 1.5}}', {
    DATABASE_URL: 'postgres://me:secret@x/y',
  })
  t.is(faulty.status, 78)
  for (const name of [
    /workers/,
    /limits\.filters/,
    /database\.url \(DATABASE_URL\): must be a URL that starts with mysql/,
  ])
    t.regex(faulty.stderr, name)
  t.notRegex(faulty.stderr, /secret/)
  t.regex(start('').stderr, /^users-api: invalid settings: database\.url \(DATABASE_URL\): is missing\n$/)
  const nameless = start('{}', { DATABASE_URL: 'mysql://me:secret@127.0.0.1:9' })
  t.is(nameless.status, 78)
  t.regex(nameless.stderr, /: must include the database name: mysql:\/\/user:password@host:port\/database\n$/)
  t.like(start('{'), {
    status: 78,
    stderr: 'users-api: invalid settings: NODE_CONFIG: must be valid JSON\n',
  })
  t.like(start('[]'), {
    status: 78,
    stderr: 'users-api: invalid settings: NODE_CONFIG: must be a JSON object, such as {"workers": 2}\n',
  })
  const configFolder = folder(t)
  cpSync(
    fileURLToPath(new URL('../../../config/default.json', import.meta.url)),
    join(configFolder, 'default.json'),
  )
  const file = join(configFolder, 'local.json')
  for (const text of ['[{"workers": 2}]', 'null', '7']) {
    writeFileSync(file, text)
    t.like(start('{}', { NODE_CONFIG_DIR: configFolder, NODE_ENV: 'development' }), {
      status: 78,
      stderr: `users-api: invalid settings: ${file}: must be a JSON object, such as {"workers": 2}\n`,
    })
  }
  writeFileSync(file, '{')
  const cut = start('{}', { NODE_CONFIG_DIR: configFolder, NODE_ENV: 'development' })
  t.is(cut.status, 78)
  t.regex(cut.stderr, /^users-api: invalid settings: .*local\.json.*\n$/)
  for (const variable of ['NODE_ENV', 'NODE_CONFIG_ENV'])
    t.like(start('{}', { [variable]: 'staging' }), {
      status: 78,
      stderr: `users-api: invalid settings: ${variable}: config/staging.json does not exist; use development, production or test\n`,
    })
  const inProduction = start('{}', { NODE_ENV: 'test,production', DATABASE_URL: 'mysql://127.0.0.1:9/users' })
  t.regex(inProduction.stderr, /: ports: https needs a certificate and a key in production\n$/)
  t.regex(
    start('{"workers": 0}').stderr,
    / \(2 errors\): workers .*; database\.url \(DATABASE_URL\): is missing\n/,
  )
})
