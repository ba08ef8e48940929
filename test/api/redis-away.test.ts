// Redis becomes unreachable, hangs and returns: responses stay correct, do not wait for it and are never
// stale.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectOk } from '../support/expect.ts'
import { createClient } from '../support/http.ts'
import { createOperator } from '../support/operator.ts'
import { ask, startService } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'

const redis = process.env.TEST_REDIS_URL
if (redis === undefined) test('redis: not tested, because no Redis is configured', t => t.pass())
else {
  const proxy = await openTcpProxy(redis)
  const env = { REDIS_URL: `redis://127.0.0.1:${proxy.port}` }
  const { service, api, close } = await openApi({ env })
  test.after.always(async t => {
    proxy.close()
    await close(t)
  })

  test('redis: includes are correct, and do not wait for Redis, while it disconnects and reconnects', async t => {
    const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
    const group = await api.create('/v1/groups', { name: 'group 0' })
    let isMember = false
    for (let round = 1; round <= 64; round++) {
      // Changes the state every 4 rounds, so that each state gets reads and writes. The last state is open.
      if (round % 4 === 1) [proxy.refuse, proxy.open, proxy.block, proxy.open][((round - 1) / 4) % 4]?.()
      const name = `group ${round}`
      expectOk(t, await api.patch(`/v1/groups/${group}`, { name }))
      if (round % 3 === 0) {
        expectOk(
          t,
          isMember
            ? await api.delete(`/v1/users/${user}/groups/${group}`)
            : await api.post(`/v1/users/${user}/groups`, { id: group }),
        )
        isMember = !isMember
      }
      for (const path of [`/v1/users/${user}?include=groups`, '/v1/users?include=groups']) {
        // A blocked Redis answers only in a later round.
        const answer = await api.get(path)
        expectOk(t, answer)
        const { groups } = answer.body.users?.[0] ?? answer.body
        t.deepEqual(
          groups?.map(one => one.name),
          isMember ? [name] : [],
          `round ${round}`,
        )
      }
    }
  })

  test('redis: an unreachable Redis at startup is logged once, and so is the first connection', async t => {
    const late = await openTcpProxy(redis)
    late.refuse()
    const { stop, log, ...other } = await startService({
      env: { REDIS_URL: `redis://127.0.0.1:${late.port}`, LOG_LEVEL: 'info' },
      config: { fleet: { beatMs: 50 } },
    })
    t.teardown(() => late.close())
    t.teardown(stop)
    const operator = createOperator(other)
    await operator.until(status => status.redis === 'away')
    await other.logLine(/cache unavailable/)
    t.is(log().match(/"level":40,.*"cache unavailable, reading from the database"/g)?.length, 1)
    late.open()
    await operator.until(status => status.redis === 'connected')
    await other.logLine(/cache connected/)
    t.is(log().match(/"level":30,.*"cache connected"/g)?.length, 1)
    t.is(log().match(/cache unavailable/g)?.length, 1)
  })

  test('redis: a page without records sends nothing to Redis and does not count as a failure', async t => {
    const { url, stop, ...other } = await startService({ config: { fleet: { beatMs: 50 } } })
    t.teardown(stop)
    const client = createClient(url)
    t.teardown(() => client.close())
    const operator = createOperator(other)
    await operator.until(status => status.redis === 'connected')
    const before = other.log().length
    for (let page = 0; page < 10; page++)
      t.deepEqual((await client.get('/v1/users?include=groups')).body.users, [])
    t.notRegex(other.log().slice(before), /cache unavailable/)
  })

  test('redis: the health check is 200 while Redis is unreachable', async t => {
    proxy.refuse()
    t.is((await ask(`${service.controlUrl}/healthcheck/http`))?.status, 200)
  })
}
