// Certificates of a real service: rotation under load, rejection of invalid ones, reuse of self-signed ones.
import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import tls from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { generate } from 'selfsigned'
import { folder } from '../support/folder.ts'
import { startLoad } from '../support/load.ts'
import { createOperator } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { connect } from '../support/raw.ts'
import { runNode } from '../support/run-to-end.ts'
import {
  ask,
  createDatabase,
  runInWorkers,
  type Service,
  type Settings,
  startService,
  supervisorEnv,
} from '../support/service.ts'
import { until } from '../support/until.ts'

const dayMs = 86_400_000
const { first: httpPort } = await claimPorts()
const httpsPort = httpPort + 2
const ports = [
  { label: 'http', port: httpPort, protocol: 'http' as const },
  { label: 'https', port: httpsPort, protocol: 'https' as const },
]
const database = await createDatabase()

/** Returns a private key in PEM, encrypted with a passphrase. */
const encrypted = (key: string): string =>
  createPrivateKey(key)
    .export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'a' })
    .toString()

async function makePair(name: string, expires = new Date(Date.now() + dayMs), begins = -2 * dayMs) {
  const { cert, private: key } = await generate([{ name: 'commonName', value: name }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notBeforeDate: new Date(Date.now() + begins),
    notAfterDate: expires,
  })
  return { cert, key, fingerprint: new X509Certificate(cert).fingerprint256 }
}

async function fingerprint(port = httpsPort): Promise<string> {
  const { socket } = await connect(port, { tls: true })
  const seen = socket instanceof tls.TLSSocket ? socket.getPeerCertificate().fingerprint256 : ''
  socket.destroy()
  return seen
}

/** How often the files are read again in the tests of changed files. */
const readEveryMs = 200

/** Starts a service whose certificate and key are in two files, which `write` replaces. */
async function start(t: ExecutionContext, config: Settings = {}) {
  const path = folder(t)
  const [certificate, key] = [join(path, 'cert.pem'), join(path, 'key.pem')]
  const write = (cert: string, privateKey: string) => {
    writeFileSync(certificate, cert)
    writeFileSync(key, privateKey)
  }
  const first = await makePair('first.test')
  write(first.cert, first.key)
  const service = await startService({
    database,
    workers: 2,
    config: {
      ports: ports.map(port => (port.protocol === 'https' ? { ...port, certificate, key } : port)),
      ...config,
    },
  })
  t.teardown(() => service.stop())
  return { service, operator: createOperator(service), first, write, certificate, key }
}

async function startHandshakes(t: ExecutionContext, { httpsUrl }: Service) {
  const load = await startLoad({ url: httpsUrl, clients: 4, connection: 'one a request', pauseMs: 10 })
  t.teardown(load.stop)
  return load
}

test.serial('rotation under load: no handshake fails and open connections stay', async t => {
  // On a slow machine, the rounds take longer than a connection may wait by default.
  const { service, operator, first, write } = await start(t, { timeouts: { headersMs: 60_000 } })
  const open = await connect(httpsPort, { tls: true })
  const load = await startHandshakes(t, service)
  t.is(await fingerprint(), first.fingerprint)
  for (let round = 0; round < 5; round++) {
    const next = await makePair(`round-${round}.test`)
    write(next.cert, next.key)
    const reply = await operator.run('reload-certificates')
    t.like(reply, { https: { subject: `CN=round-${round}.test`, fingerprint: next.fingerprint } })
    while ((await fingerprint()) !== next.fingerprint) await load.requests(1)
    await load.requests(20)
  }
  t.regex(await open.ask('GET /v1/groups HTTP/1.1\r\nHost: a\r\n\r\n'), /200 OK/)
  const { failures, requests } = await load.stop()
  t.deepEqual(failures, {})
  t.log(`${requests} handshakes`)
})

/** Replaces a file atomically. */
function replace(file: string, text: string): void {
  writeFileSync(`${file}.new`, text)
  renameSync(`${file}.new`, file)
}

/** Replaces a file or a link atomically by a link. */
function relink(link: string, target: string): void {
  symlinkSync(target, `${link}.new`)
  renameSync(`${link}.new`, link)
}

/** Puts a pair into a new folder and makes the link point to it, as Kubernetes does with a secret. */
function swap(link: string, { cert, key }: { cert: string; key: string }): void {
  const target = mkdtempSync(`${link}-`)
  writeFileSync(join(target, 'cert.pem'), cert)
  writeFileSync(join(target, 'key.pem'), key)
  relink(link, target)
}

/** Waits until both workers serve a certificate. A new connection reaches either of them, and one can have it first. */
async function untilServed(wanted: string, load: Awaited<ReturnType<typeof startLoad>>): Promise<void> {
  for (let inSequence = 0; inSequence < 24; ) {
    if ((await fingerprint()) === wanted) inSequence++
    else {
      inSequence = 0
      await load.requests(1)
    }
  }
}

const withMessage = (msg: string) => new RegExp(`"msg":"${msg}"`)

const logLines = (
  service: Service,
  msg: string,
): { msg: string; level: number; label?: string; reason?: string; valid_to?: string }[] =>
  service.logLines(withMessage(msg)).map(line => JSON.parse(line))

const changed = 'certificate changed'
const unusable = 'changed certificate cannot be used, the old one stays'
const usableAgain = 'the files of all certificates can be used again'
const keyChanged = 'TLS ticket key changed'

/** Waits until the service has read all its files twice more, by changes of another file that it logs. */
async function untilReadTwice(service: Service, change: () => Promise<void> | void, msg: string) {
  // The file of the first change can be read in a round that has begun before it.
  for (let round = 0; round < 3; round++) {
    const before = logLines(service, msg).length
    await change()
    await service.logLine(withMessage(msg), before + 1)
  }
}

test.serial(
  'changed files under load: no handshake fails, and every port serves the new certificate',
  async t => {
    const { service, operator, first, certificate, key } = await start(t, {
      certificates: { readEveryMs },
      log: { level: 'info', requests: false },
    })
    const load = await startHandshakes(t, service)
    t.is(await fingerprint(), first.fingerprint)
    for (let round = 0; round < 3; round++) {
      const next = await makePair(`renamed-${round}.test`)
      replace(key, next.key)
      replace(certificate, next.cert)
      await untilServed(next.fingerprint, load)
    }

    const link = join(folder(t), 'secret')
    swap(link, await makePair('zero.test'))
    relink(key, join(link, 'key.pem'))
    relink(certificate, join(link, 'cert.pem'))
    for (let round = 0; round < 3; round++) {
      const expires = new Date(Date.now() + (round + 2) * dayMs)
      const next = await makePair(`swapped-${round}.test`, expires)
      swap(link, next)
      await untilServed(next.fingerprint, load)
      const { valid_to } = (await operator.status()).ports.https ?? {}
      t.is(valid_to, new Date(Math.floor(expires.getTime() / 1000) * 1000).toISOString())
      await until(() => logLines(service, changed).at(-1)?.valid_to === valid_to)
    }

    t.is((await operator.status()).ports.http?.valid_to, null)
    const metrics = (await ask(`${service.controlUrl}/metrics`))?.text ?? ''
    const seconds = Number(/^users_api_certificate_expiry_seconds\{port="https"\} (\d+)/m.exec(metrics)?.[1])
    t.true(seconds > 3.9 * 86_400 && seconds <= 4 * 86_400, String(seconds))
    const { failures, requests } = await load.stop()
    t.deepEqual(failures, {})
    t.log(`${requests} handshakes, ${logLines(service, changed).length} changes`)
  },
)

test.serial('changed files that cannot be used: each fault is logged once, the old pair stays', async t => {
  const ticketKeyFile = join(folder(t), 'tickets')
  const changeTicketKey = () => replace(ticketKeyFile, randomBytes(48).toString('hex'))
  changeTicketKey()
  const { service, first, write, certificate } = await start(t, {
    tls: { ticketKeyFile },
    certificates: { readEveryMs },
    log: { level: 'info', requests: false },
  })
  const load = await startLoad({
    url: service.httpsUrl,
    clients: 2,
    connection: 'one a request',
    pauseMs: 10,
  })
  t.teardown(load.stop)
  const faults = () => logLines(service, unusable)
  const other = await makePair('other.test')
  const changes: [() => void, RegExp][] = [
    [() => replace(certificate, other.cert), /the key does not match the certificate/],
    [() => replace(certificate, 'garbage'), /PEM/],
    [() => rmSync(certificate), /ENOENT/],
  ]
  for (const [index, [change, reason]] of changes.entries()) {
    change()
    await service.logLine(withMessage(unusable), index + 1)
    t.regex(faults().at(-1)?.reason ?? '', reason)
    await untilReadTwice(service, changeTicketKey, keyChanged)
    t.is(faults().length, index + 1)
    t.is(await fingerprint(), first.fingerprint)
  }
  t.is(logLines(service, usableAgain).length, 0)
  write(first.cert, first.key)
  await service.logLine(withMessage(usableAgain))
  write(other.cert, other.key)
  while ((await fingerprint()) !== other.fingerprint) await load.requests(1)
  t.deepEqual((await load.stop()).failures, {})
})

test.serial(
  'invalid certificate: rejected with the reason; the old one stays, also in new workers',
  async t => {
    const { service, operator, first, write, certificate } = await start(t)
    const other = await makePair('other.test')
    const expired = await makePair('expired.test', new Date(Date.now() - dayMs))
    const early = await makePair('early.test', new Date(Date.now() + 2 * dayMs), dayMs)
    const bad: [string, string, RegExp][] = [
      [other.cert, first.key, /the key does not match the certificate/],
      [expired.cert, expired.key, /expired/],
      [early.cert, early.key, /not valid before/],
      [`${first.cert}\n${other.cert}`, other.key, /the first one in its file/],
      [`${other.cert}\n-----BEGIN CERT`, other.key, /incomplete: it ends where a further certificate begins/],
      [
        `${other.cert}\n${first.cert.slice(0, 200)}`,
        other.key,
        /its file and its key cannot be used for TLS/,
      ],
      ['garbage', other.key, /of https cannot be used: its file has no certificate/],
      [other.cert, 'garbage', /of https cannot be used: the file of its key has no key/],
      [other.cert, encrypted(other.key), /without a passphrase/],
    ]
    for (const [cert, key, reason] of bad) {
      write(cert, key)
      t.regex((await operator.run('reload-certificates')).error ?? '', reason)
      t.is(await fingerprint(), first.fingerprint)
    }
    rmSync(certificate)
    t.regex((await operator.run('reload-certificates')).error ?? '', /ENOENT/)
    const [victim = 0] = await service.workers()
    process.kill(victim, 'SIGKILL')
    await operator.until(
      ({ workers }) =>
        workers.length === 2 && workers.every(({ pid, state }) => pid !== victim && state === 'ready'),
    )
    for (let connection = 0; connection < 4; connection++) t.is(await fingerprint(), first.fingerprint)
  },
)

test.serial('reload-certificates: a certificate without a subject is described by its names', async t => {
  const { operator, write } = await start(t)
  const { cert, private: key } = await generate([], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'names.test' }] }],
  })
  write(cert, key)
  t.like(await operator.run('reload-certificates'), { https: { subject: 'DNS:names.test' } })
})

test.serial('reload-certificates: each port gets its own, whatever the others have', async t => {
  const path = folder(t)
  const write = (label: string, { cert, key }: { cert: string; key: string }) => {
    const file = join(path, `${label}.pem`)
    writeFileSync(file, `${cert}\n${key}`)
    return file
  }
  const expired = await makePair('expired.test', new Date(Date.now() - dayMs))
  const first = await makePair('first.test')
  const https = (label: string, port: number, pair: typeof first) => {
    const certificate = write(label, pair)
    return { label, port, protocol: 'https' as const, certificate, key: certificate }
  }
  const { first: otherPort } = await claimPorts()
  const service = await startService({
    database,
    config: {
      ports: [
        { label: 'http', port: httpPort, protocol: 'http' },
        https('https', httpsPort, first),
        https('old', otherPort, expired),
      ],
    },
  })
  t.teardown(() => service.stop())
  const operator = createOperator(service)
  const second = await makePair('second.test')
  write('https', second)
  t.like(await operator.run('reload-certificates'), { https: { fingerprint: second.fingerprint } })
  const untilServed = ({ fingerprint: wanted }: typeof first) =>
    until(async () => (await fingerprint()) === wanted)
  await untilServed(second)
  t.is(await fingerprint(otherPort), expired.fingerprint)

  const third = await makePair('third.test')
  write('https', third)
  write('old', { cert: third.cert, key: first.key })
  const { error } = await operator.run('reload-certificates')
  t.regex(error ?? '', /^the certificate of old cannot be used: the key does not match the certificate[^;]*$/)
  await untilServed(third)
  t.is(await fingerprint(otherPort), expired.fingerprint)
})

/** Returns a new TLS session with a service. */
async function openSession(service: Service): Promise<Buffer> {
  const { socket } = await connect(service.port('https'), { tls: true })
  const [session] = await once(socket, 'session')
  socket.destroy()
  return session
}

/** Returns whether the service resumes the session. */
async function resumes(service: Service, session: Buffer): Promise<boolean> {
  const { socket } = await connect(service.port('https'), { tls: true, session })
  const isReused = socket instanceof tls.TLSSocket && socket.isSessionReused()
  socket.destroy()
  return isReused
}

test.serial(
  'TLS sessions: nodes with the same tls.ticketKeyFile resume those of each other, and a changed file is used',
  async t => {
    const ticketKeyFile = join(folder(t), 'tickets')
    writeFileSync(ticketKeyFile, randomBytes(48))
    const shared = {
      tls: { ticketKeyFile },
      certificates: { readEveryMs },
      log: { level: 'info', requests: false },
    }
    const startNode = async (config: Settings, env = {}) => {
      const service = await startService({ database, config, env })
      t.teardown(() => service.stop())
      return service
    }
    const one = await startNode(shared)
    // By default, Node resumes sessions only of programs with the same path and arguments.
    const other = await startNode(shared, runInWorkers("process.argv.push('other')"))
    const alone = await startNode({})
    const session = await openSession(one)
    t.true(await resumes(other, session))
    t.true(await resumes(one, session))
    t.false(await resumes(alone, session))
    t.true(await resumes(alone, await openSession(alone)))

    const newSecret = randomBytes(48).toString('hex')
    replace(ticketKeyFile, newSecret)
    for (const node of [one, other]) await until(async () => !(await resumes(node, session)))
    t.true(await resumes(other, await openSession(one)))

    const changeCertificate = async () => {
      const { cert, key } = await makePair('changed.test')
      replace(join(dirname(one.socket), 'self-signed.pem'), cert + key)
    }
    const refused = 'changed TLS ticket key cannot be used, the old one stays'
    replace(ticketKeyFile, 'short')
    await one.logLine(withMessage(refused))
    await untilReadTwice(one, changeCertificate, changed)
    t.is(logLines(one, refused).length, 1)
    t.regex(logLines(one, refused)[0]?.reason ?? '', /has 5 bytes; it needs at least 32 random bytes/)
    t.is(logLines(one, keyChanged).length, 1)
    t.true(await resumes(other, await openSession(one)))
    replace(ticketKeyFile, newSecret)
    await one.logLine(withMessage('the file of the TLS ticket key can be used again'))
    t.is(logLines(one, keyChanged).length, 1)
  },
)

test.serial('invalid certificate: the service does not start', async t => {
  const path = folder(t)
  const file = join(path, 'bad.pem')
  writeFileSync(file, 'garbage')
  const config: Settings = {
    ports: [{ label: 'https', port: httpPort, protocol: 'https', certificate: file, key: file }],
    tls: { ticketKeyFile: join(path, 'missing') },
  }
  const { code, stderr } = await runNode('dist/supervisor.js', [], supervisorEnv(database, config))
  t.is(code, 78)
  t.regex(
    stderr,
    /^users-api: .*the certificate of https cannot be used: .*; tls.ticketKeyFile cannot be used: .*\n$/,
  )
})

test.serial(
  'expired certificate: the service starts with it, and says so in log, status and metric',
  async t => {
    const path = folder(t)
    const [certificate, key] = [join(path, 'cert.pem'), join(path, 'key.pem')]
    const expired = await makePair('expired.test', new Date(Date.now() - dayMs))
    writeFileSync(certificate, expired.cert)
    writeFileSync(key, expired.key)
    const config: Settings = {
      ports: ports.map(port => (port.protocol === 'https' ? { ...port, certificate, key } : port)),
      certificates: { readEveryMs },
    }
    const service = await startService({ database, config })
    t.teardown(() => service.stop())
    t.is((await ask(`${service.url}/v1/groups`))?.status, 200)
    t.is(await fingerprint(), expired.fingerprint)
    const rejected = 'clients REJECT the certificate: replace its files'
    await service.logLine(withMessage(rejected))
    t.like(logLines(service, rejected), [{ label: 'https', level: 50 }])
    const { valid_to } = (await createOperator(service).status()).ports.https ?? {}
    t.true(Date.parse(valid_to ?? '') < Date.now())
    const metrics = await ask(`${service.controlUrl}/metrics`)
    t.regex(metrics?.text ?? '', /^users_api_certificate_expiry_seconds\{port="https"\} -\d/m)

    const next = await makePair('next.test')
    replace(certificate, next.cert)
    replace(key, next.key)
    await until(async () => (await fingerprint()) === next.fingerprint)
    t.is(logLines(service, rejected).length, 1, 'logged once')
  },
)

test.serial(
  'self-signed certificate: stored with mode 0600, reused after a restart, renewed when expired',
  async t => {
    const path = folder(t)
    const file = join(path, 'self-signed.pem')
    const options = { database, config: { ports, stateFile: join(path, 'state.json') } }
    const seen: string[] = []
    const run = async () => {
      const service = await startService(options)
      seen.push(await fingerprint())
      await service.stop()
    }
    await run()
    t.is(statSync(file).mode & 0o777, 0o600)
    await run()
    const expired = await makePair('old.test', new Date(Date.now() - dayMs))
    writeFileSync(file, expired.key + expired.cert)
    await run()
    t.is(seen[0], seen[1])
    t.false([seen[0], expired.fingerprint].includes(seen[2] ?? ''))
  },
)
