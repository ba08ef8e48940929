// Connections are spread over the workers of a real service, whichever worker accepted them, and no request is lost.
import test, { type ExecutionContext } from 'ava'
import { startLoad } from '../support/load.ts'
import { connect } from '../support/raw.ts'
import { createDatabase, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()

/** Starts two workers and keep-alive clients whose connections are all accepted by one of them, while the other sleeps. */
async function startSkewed(t: ExecutionContext, label: 'http' | 'https', clients: number) {
  const service = await startService({
    database,
    workers: 2,
    env: { LOG_LEVEL: 'info' },
    // The worker that sleeps is not killed, however long the load takes.
    config: { log: { requests: true }, fleet: { silentMs: 600_000 } },
  })
  t.teardown(() => service.stop())
  const [sleeper = 0] = await service.workers()
  process.kill(sleeper, 'SIGSTOP')
  const load = await startLoad({
    url: label === 'http' ? service.url : service.httpsUrl,
    clients,
    pauseMs: 20,
  })
  t.teardown(load.stop)
  await load.requests(10 * clients)
  t.is(requestsOf(service, sleeper), 0)
  process.kill(sleeper, 'SIGCONT')
  return { service, load, sleeper }
}

/** Returns the number of requests that a worker has logged. */
function requestsOf(service: Service, pid: number): number {
  return service.log().split(`"pid":${pid},"msg":"request"`).length - 1
}

for (const label of ['http', 'https'] as const)
  test.serial(`${label}: soon no worker serves more than 60 % of 32 connections`, async t => {
    const { service, load } = await startSkewed(t, label, 32)
    const workers = await service.workers()
    const counts = () => workers.map(pid => requestsOf(service, pid))
    let share = 1
    await until(
      async () => {
        const before = counts()
        await load.requests(1000)
        const served = counts().map((count, at) => count - (before[at] ?? 0))
        share = Math.max(...served) / served.reduce((sum, count) => sum + count, 0)
        return share <= 0.6
      },
      { describe: () => `one worker serves ${Math.round(100 * share)} %` },
    )
    t.deepEqual((await load.stop()).failures, {})
  })

test.serial(
  'a worker that has left new connections to another one accepts them when that one dies',
  async t => {
    const { service, load, sleeper } = await startSkewed(t, 'http', 16)
    while (requestsOf(service, sleeper) === 0) await load.requests(1)
    process.kill(sleeper, 'SIGKILL')
    const client = await connect(service.port('http'))
    t.regex(await client.ask('GET /v1/groups HTTP/1.1\r\nHost: a\r\n\r\n'), /^HTTP\/1.1 200/)
    const { failed, failures } = await load.stop()
    t.true(failed <= 16, 'those in flight')
    t.deepEqual(
      Object.keys(failures).filter(reason => !/ECONNRESET|socket hang up/.test(reason)),
      [],
    )
  },
)
