// The cache with a real Redis Cluster whose nodes need a password and TLS, and with a master that becomes a replica.
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { Redis } from 'ioredis'
import { generate } from 'selfsigned'
import { findProgram, redisProgram } from '../../src/cli/private-servers/programs.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { redisUrl } from '../../src/config/redis-url.ts'
import { fill, keysOf, logCache, openCache, readHits } from '../support/cache.ts'
import { folder } from '../support/folder.ts'
import { claimPorts, listenOnFreePort } from '../support/ports.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const user = 'us:er'
const userPassword = 'pass:word/ü'
/** The password of the default user, which the cache does not have. */
const password = 'default'
const program = findProgram(redisProgram.names)

/** Claims a folder and ports for servers, until the test ends. */
async function claimPlace(t: ExecutionContext) {
  const claim = await claimPorts()
  t.teardown(claim.release)
  return { folder: folder(t), claim }
}

/** Starts a Redis on a loopback port. */
async function startRedis(
  t: ExecutionContext,
  folder: string,
  settings: Record<string, string>,
  admin: () => Redis,
) {
  const args = Object.entries({ dir: folder, save: '', bind: '127.0.0.1', ...settings })
  const client = admin()
  client.on('error', () => {})
  const server = await runServer({
    title: 'Redis',
    program: program ?? '',
    args: args.flatMap(([name, value]) => [`--${name}`, value]),
    url: '',
    ping: async () => void (await client.ping()),
  })
  t.teardown(async () => {
    client.disconnect()
    await server.stop('SIGKILL')
  })
  return { client, server }
}

/** Starts three nodes that share the slots, with TLS and a password, without replicas. */
async function startCluster(t: ExecutionContext) {
  const { folder, claim } = await claimPlace(t)
  const altNames = [{ type: 7, ip: '127.0.0.1' } as const]
  const pair = await generate([{ name: 'commonName', value: 'redis' }], {
    extensions: [{ name: 'subjectAltName', altNames }],
  })
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  await writeFile(cert, pair.cert)
  await writeFile(key, pair.private)
  const ports = [0, 1, 2].map(index => claim.first + index)
  const nodes = await Promise.all(
    ports.map(port =>
      startRedis(
        t,
        folder,
        {
          port: '0',
          'tls-port': `${port}`,
          'tls-cluster': 'yes',
          'tls-cert-file': cert,
          'tls-key-file': key,
          'tls-ca-cert-file': cert,
          'tls-auth-clients': 'no',
          'cluster-enabled': 'yes',
          'cluster-port': `${port + 3}`,
          'cluster-config-file': `nodes-${port}.conf`,
          'cluster-node-timeout': '1000',
          'cluster-require-full-coverage': 'no',
          'cluster-allow-reads-when-down': 'yes',
          requirepass: password,
          masterauth: password,
        },
        () => new Redis({ port, password, tls: {}, maxRetriesPerRequest: 0 }),
      ),
    ),
  )
  for (const { client } of nodes)
    await client.call('ACL', 'SETUSER', user, 'on', `>${userPassword}`, '~*', '&*', '+@all')
  const bounds = [0, 5461, 10_923, 16_384]
  for (const [index, { client }] of nodes.entries()) {
    await client.call('CLUSTER', 'ADDSLOTSRANGE', bounds[index] ?? 0, (bounds[index + 1] ?? 0) - 1)
    await client.call('CLUSTER', 'MEET', '127.0.0.1', claim.first, claim.first + 3)
  }
  for (const { client } of nodes)
    await until(async () =>
      /cluster_state:ok.*cluster_slots_ok:16384/s.test(String(await client.call('CLUSTER', 'INFO'))),
    )
  return { nodes, ports }
}

if (program === undefined) test('cache: not tested, because Redis is not installed', t => t.pass())
else {
  // The certificate of the cluster is self-signed. The service itself would be given NODE_EXTRA_CA_CERTS.
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'

  test('cache: in a cluster, credentials and TLS apply to every node, and a node that is away costs only its keys', async t => {
    const { nodes, ports } = await startCluster(t)
    const [first = 0, second = 0] = ports
    const secret = encodeURIComponent(userPassword)
    const { cache } = await openCache(t, [
      `rediss://${encodeURIComponent(user)}:${secret}@127.0.0.1:${first}`,
      `rediss://127.0.0.1:${second}`,
    ])
    const keys = keysOf(300)
    await fill(cache, keys)
    t.deepEqual((await readHits(cache, keys)).hits, keys)

    const [, , third] = nodes
    if (third === undefined) throw new Error('the cluster has no third node')
    const gone = new Set(keys)
    for (const { client } of nodes.slice(0, 2))
      for (const key of await client.keys('*')) {
        gone.delete(key)
        t.true((await client.ttl(key)) > 0)
      }
    t.true(gone.size > 50 && gone.size < 150, `${gone.size}`)
    const expectOthers = async (read: readonly string[]) => {
      const { isLate, hits } = await readHits(cache, read)
      t.false(isLate)
      t.deepEqual(
        hits,
        read.filter(key => !gone.has(key)),
      )
    }
    const [pid] = String(await third.client.info('server')).match(/(?<=process_id:)\d+/) ?? []
    // It hangs at first, then it is gone.
    process.kill(Number(pid), 'SIGSTOP')
    for (let round = 0; round < 10; round++) await expectOthers(keys)
    await third.server.stop('SIGKILL')
    for (let round = 0; round < 10; round++) await expectOthers(keys)
    for (const key of keys) await expectOthers([key])
    t.is(cache.report().state, 'connected')
  })

  test('cache: the user, the password and the database of one server are those of its URL', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    await admin.call('ACL', 'SETUSER', user, 'on', `>${userPassword}`, '~*', '&*', '+@all')
    await admin.call('ACL', 'SETUSER', 'default', 'off')
    const credentials = [user, userPassword].map(encodeURIComponent).join(':')
    const { cache } = await openCache(t, redisUrl.parse(`redis://${credentials}@127.0.0.1:${port}/5`))
    await fill(cache, ['key:'])
    await admin.select(5)
    t.deepEqual(await admin.keys('*'), ['key:'])
  })

  test('cache: a read that succeeds ends a series of failures', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const { cache, messages } = await openCache(t, redisUrl.parse(`redis://127.0.0.1:${port}`))
    await fill(cache, ['key:'])
    const failures = [true, true, false, true, true, false, true, true, true]
    for (const isFailure of failures) {
      await admin.call('ACL', 'SETUSER', 'default', isFailure ? '-mget' : '+mget')
      t.deepEqual((await readHits(cache, ['key:'])).hits, isFailure ? [] : ['key:'])
    }
    t.deepEqual(messages(), ['cache connected', 'cache unavailable, reading from the database'])
    t.is(cache.report().state, 'away')
  })

  test('cache: without its database, Redis is not used', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const settings = { port: `${port}`, databases: '6' }
    const { client: admin } = await startRedis(t, folder, settings, () => new Redis({ port }))
    const { lines } = logCache(t, redisUrl.parse(`redis://127.0.0.1:${port}/6`))
    const connections = async () =>
      Number(/(?<=connections_received:)\d+/.exec(await admin.info('stats'))?.[0])
    const before = await connections()
    // Each attempt ends before the next one begins.
    await until(async () => (await connections()) > before + 2)
    t.deepEqual(
      lines.map(({ reason }) => reason),
      ['ERR DB index is out of range'],
    )
  })

  /** Returns the first bytes that a cache sends. @param urlOf returns its URL for a host */
  const firstBytes = (t: ExecutionContext, urlOf: (host: string) => string) =>
    new Promise<Buffer>(resolve => {
      const server = createServer(socket => {
        socket.once('data', bytes => {
          socket.destroy()
          resolve(bytes)
        })
      })
      t.teardown(() => server.close())
      void listenOnFreePort(server).then(port => logCache(t, redisUrl.parse(urlOf(`127.0.0.1:${port}`))))
    })

  test('cache: a scheme in capital letters means TLS, too', async t => {
    const [first] = await firstBytes(t, host => `REDISS://${host}`)
    // A handshake of TLS.
    t.is(first, 22)
  })

  test('cache: the password of the Sentinels can have a +', async t => {
    const bytes = await firstBytes(t, host => `redis+sentinel://${host}/main?sentinel_password=a+%2Bb`)
    t.regex(bytes.toString(), /\r\na\+\+b\r\n/)
  })

  test('cache: a master that becomes a replica is logged, and the cache connects again', async t => {
    const { folder, claim } = await claimPlace(t)
    const [port, other] = [claim.first, claim.first + 1]
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const proxy = await openTcpProxy(`redis://127.0.0.1:${port}`)
    t.teardown(() => proxy.close())
    const { cache, messages, lines } = await openCache(t, [`redis://127.0.0.1:${proxy.port}`])
    const keys = keysOf(10)
    await fill(cache, keys)
    t.deepEqual(messages(), ['cache connected'])

    await admin.replicaof('127.0.0.1', other)
    const reconnected = proxy.attempts(1)
    cache.write([['new:', 'value']])
    await reconnected
    const rejections = lines.filter(({ msg }) => msg === 'cache rejects writes')
    t.is(rejections.length, 1)
    t.regex(rejections[0]?.reason ?? '', /^READONLY/)
    await admin.replicaof('NO', 'ONE')
    await fill(cache, ['new:'])
    t.deepEqual(messages().slice(-2), ['cache unavailable, reading from the database', 'cache connected'])
  })

  test('cache: three reads without a reply are logged with the reason, and a new connection is used at once', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const proxy = await openTcpProxy(`redis://127.0.0.1:${port}`)
    t.teardown(() => proxy.close())
    const { cache, lines } = await openCache(t, [`redis://127.0.0.1:${proxy.port}`], 1000)
    proxy.block()
    await Promise.all([1, 2, 3].map(() => cache.read(['key:'])))
    t.is(lines[1]?.msg, 'cache unavailable, reading from the database')
    t.is(lines[1]?.reason, 'no reply within 1000 ms')
    t.is(cache.report().state, 'away')
    proxy.refuse()
    proxy.open()
    await until(() => cache.report().state === 'connected')
  })

  test('cache: a probe of a Redis that does not reply holds up no read', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    let isSilent = false
    let commands = 0
    const proxy = await openTcpProxy(`redis://127.0.0.1:${port}`, to => {
      if (isSilent && to === 'server') commands++
      return !isSilent
    })
    t.teardown(() => proxy.close())
    // The connection is replaced after twice this time, long after the first probe.
    const { cache } = await openCache(t, [`redis://127.0.0.1:${proxy.port}`], 3000)
    isSilent = true
    await Promise.all([1, 2, 3].map(() => cache.read(['key:'])))
    const before = commands
    await until(async () => {
      t.deepEqual(await Promise.race([cache.read(['key:']), nextTurn('late')]), [undefined])
      return commands > before
    })
  })

  test('cache: a password that was changed is logged as the reason', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const { lines } = await openCache(t, [`redis://127.0.0.1:${port}`])
    await admin.config('SET', 'requirepass', 'secret')
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await until(() => lines.length === 3)
    t.deepEqual(
      lines.slice(1).map(({ msg }) => msg),
      ['cache unavailable, reading from the database', 'cache unavailable, reading from the database'],
    )
    t.is(lines[1]?.reason, 'connection closed')
    t.regex(lines[2]?.reason ?? '', /^NOAUTH/)
  })

  test('cache: the reason is logged why no node of a cluster can be used, also if it changes', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const admin = () => new Redis({ port, password })
    const { client } = await startRedis(t, folder, { port: `${port}`, requirepass: password }, admin)
    const { lines } = logCache(t, [`redis://127.0.0.1:${port}`, `redis://127.0.0.1:${port}`])
    // On a slow machine, the first reason can be that ioredis has waited too long for the slots.
    const untilLogged = (expected: RegExp) =>
      until(() => lines.some(({ reason = '' }) => expected.test(reason)), {
        describe: () => JSON.stringify(lines),
      })
    await untilLogged(/^NOAUTH/)
    await client.config('SET', 'requirepass', '')
    await untilLogged(/cluster support disabled/)
    t.pass()
  })

  test('cache: a value of more than 64 KiB is not stored, however few characters it has', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const { cache } = await openCache(t, [`redis://127.0.0.1:${port}`])
    const largest = 'é'.repeat(32_768)
    const isStored = async () => {
      cache.write([
        ['larger:', `${largest}a`],
        ['largest:', largest],
      ])
      return (await cache.read(['largest:']))[0] === largest
    }
    await until(isStored)
    t.deepEqual(await admin.keys('*'), ['largest:'])
    // Its lifetime: without one, no value would ever leave Redis.
    t.true((await admin.ttl('largest:')) > 0)
  })

  test('cache: what the service would not store is no value', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const { cache } = await openCache(t, [`redis://127.0.0.1:${port}`])
    await admin.mset('one:', 'one:value', 'two:', 'one:value', 'long:', `long:${'a'.repeat(65_537)}`)
    t.deepEqual(await cache.read(['one:', 'two:', 'long:']), ['value', undefined, undefined])
    t.like(cache.report(), { hits: 1, misses: 2 })
  })

  test('cache: a Redis that is full is logged once, and its values are still read', async t => {
    const { folder, claim } = await claimPlace(t)
    const port = claim.first
    const { client: admin } = await startRedis(t, folder, { port: `${port}` }, () => new Redis({ port }))
    const { cache, lines } = await openCache(t, [`redis://127.0.0.1:${port}`])
    await fill(cache, ['old:'])
    await admin.config('SET', 'maxmemory', '1')
    for (let write = 0; write < 10; write++) {
      cache.write([['new:', 'value']])
      t.deepEqual(await cache.read(['old:', 'new:']), ['value of old:', undefined])
    }
    const rejections = lines.filter(({ msg }) => msg === 'cache rejects writes')
    t.is(rejections.length, 1)
    t.regex(rejections[0]?.reason ?? '', /^OOM/)
  })
}
