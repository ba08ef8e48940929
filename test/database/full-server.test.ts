// A database server that accepts no further connection, or none from this machine.
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { throughProxy } from '../faults/database-url.ts'
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
  const database = openDatabase({ url: throughProxy(url, proxy.port), poolMax: 2 }, 'silent')
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
  const database = openDatabase({ url: throughProxy(url, proxy.port) }, 'silent')
  t.teardown(() => database.close())
  await t.notThrowsAsync(database.ready())
})
