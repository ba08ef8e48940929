// A database server that accepts no further connection, or none from this machine.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { symlink, unlink } from 'node:fs/promises'
import net from 'node:net'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { pino } from 'pino'
import { loadConfig } from '../../src/config/config.ts'
import { createDatabase as openPool } from '../../src/database/database.ts'
import { throughProxy } from '../faults/database-url.ts'
import { folder } from '../support/folder.ts'
import { openDatabase } from '../support/open-database.ts'
import { createDatabase } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const ACCOUNT = 'one_connection'

/** Creates an account that may have one connection, and is deleted with the test. @returns a URL with it */
async function limitAccount(t: ExecutionContext, url: string): Promise<string> {
  const connection = await mysql.createConnection(url)
  t.teardown(async () => {
    await connection.query(`DROP USER ${ACCOUNT}`)
    connection.destroy()
  })
  // Without a password: MySQL would ask for it in a way that depends on the kind of socket, which the proxy changes.
  await connection.query(`CREATE USER ${ACCOUNT}@'%' WITH MAX_USER_CONNECTIONS 1`)
  await connection.query(`GRANT ALL ON *.* TO ${ACCOUNT}@'%'`)
  return Object.assign(new URL(url), { username: ACCOUNT, password: '' }).href
}

test('full: a request takes a connection of the pool that becomes free, if the server accepts no further one', async t => {
  const url = await limitAccount(t, await createDatabase())
  let isRejected = false
  const proxy = await openTcpProxy(url, (to, bytes) => {
    if (to === 'client' && bytes.includes('max_user_connections')) isRejected = true
    return true
  })
  t.teardown(() => proxy.close())
  const database = openDatabase({ url: throughProxy(url, proxy.port), poolMax: 2 }, { level: 'silent' })
  t.teardown(() => database.close())
  const { second } = await database.snapshot(async () => {
    // It needs a second connection, and the account has one only.
    const second = database.query('SELECT 2 AS n', []).catch((error: unknown) => error)
    await until(() => isRejected)
    return { second }
  })
  t.deepEqual(await second, [{ n: 2 }])
})

test('blocked: a service waits at its start for a server that has blocked its machine', async t => {
  const url = await createDatabase()
  let isBlocked = true
  const proxy = await openTcpProxy(url, (to, _, client) => {
    if (to === 'server' || !isBlocked) return true
    isBlocked = false
    // An ERR packet in the place of the greeting: 1129 is ER_HOST_IS_BLOCKED.
    const message = Buffer.from('\xff\x69\x04Host is blocked', 'latin1')
    client.end(Buffer.concat([Buffer.from([message.length, 0, 0, 0]), message]))
    return false
  })
  t.teardown(() => proxy.close())
  const database = openDatabase({ url: throughProxy(url, proxy.port) }, { level: 'silent' })
  t.teardown(() => database.close())
  await t.notThrowsAsync(database.ready())
})

/** Listens on a Unix socket whose queue is full: nothing accepts its connections. @returns a function that ends it */
async function listenWithFullQueue(t: ExecutionContext, path: string): Promise<() => Promise<void>> {
  const code = `require('node:net').createServer().listen({ path: ${JSON.stringify(path)}, backlog: 1 }, () => {
    require('node:fs').writeSync(1, 'listening')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })`
  const listener = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => listener.kill('SIGKILL'))
  await once(listener.stdout, 'data')
  await t.throwsAsync(async () => {
    for (;;) {
      const client = net.connect(path).on('error', () => {})
      t.teardown(() => client.destroy())
      await once(client, 'connect')
    }
  })
  return async () => {
    listener.kill('SIGKILL')
    await once(listener, 'exit')
    await unlink(path)
  }
}

test('busy: a service waits at its start for a server that accepts too slowly on its Unix socket', async t => {
  const url = new URL(await createDatabase())
  const socket = url.searchParams.get('socketPath') ?? ''
  const path = join(folder(t), 'busy.sock')
  const end = await listenWithFullQueue(t, path)
  url.searchParams.set('socketPath', path)
  let isWaiting = false
  const log = pino({}, { write: line => (isWaiting ||= line.includes('waiting for the database')) })
  const database = openPool({ ...(await loadConfig()).database, url: url.href }, log)
  t.teardown(() => database.close())
  const ready = database.ready()
  await Promise.race([ready, until(() => isWaiting)])
  await end()
  await symlink(socket, path)
  await t.notThrowsAsync(ready)
})
