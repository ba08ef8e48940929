// npx tsx test/bench/loss.ts [requests] [replacements]: what replacing workers costs the clients, in lost requests.
// Clients never repeat a request; each one that is not answered 200 is counted.
import { setTimeout as delay } from 'node:timers/promises'
import { type LoadOptions, startLoad, type Tally } from '../support/load.ts'
import { createOperator, type Operator } from '../support/operator.ts'
import { type Service, startService } from '../support/service.ts'
import { withStores } from './stores.ts'

const [requests = 30_000, replacements = 100] = process.argv.slice(2).map(Number)
const workers = 2
const clients = 32
// The machine is to be busy, but not with queues.
const pauseMs = 10

async function withService<T>(
  database: string,
  redisUrl: string,
  work: (service: Service, operator: Operator) => Promise<T>,
): Promise<T> {
  const service = await startService({ database, workers, env: { REDIS_URL: redisUrl } })
  const operator = createOperator(service)
  await operator.until(status => status.workers.every(({ state }) => state === 'ready'))
  try {
    return await work(service, operator)
  } finally {
    await service.stop()
  }
}

/** Reloads under load until there were enough of both. */
async function reload(options: LoadOptions, operator: Operator): Promise<{ replaced: number; tally: Tally }> {
  const load = await startLoad({ ...options, clients, pauseMs })
  let replaced = 0
  while (replaced < replacements || load.tally.requests < requests) {
    const { error } = await operator.run('reload')
    if (error !== undefined) throw new Error(error)
    replaced += workers
  }
  return { replaced, tally: await load.stop() }
}

/** Kills a worker every second for a minute; what was in flight in it is lost with it. */
async function kill(options: LoadOptions, service: Service): Promise<{ replaced: number; tally: Tally }> {
  const load = await startLoad({ ...options, clients, pauseMs })
  let replaced = 0
  for (; replaced < 60; replaced++) {
    const pids = await service.workers()
    const victim = pids[replaced % pids.length]
    if (victim !== undefined) process.kill(victim, 'SIGKILL')
    await delay(1000)
  }
  return { replaced, tally: await load.stop() }
}

function report(name: string, replaced: number, { requests, failed, failures }: Tally): void {
  const reasons = failed === 0 ? '' : ` ${JSON.stringify(failures)}`
  console.log(`${name}: ${replaced} replacements, ${requests} requests, ${failed} lost${reasons}`)
}

await withStores(async ({ createPopulated, redisUrl }) => {
  const database = await createPopulated(1000)
  const runs: [string, (service: Service, operator: Operator) => ReturnType<typeof reload>][] = [
    ['reload, keep-alive', ({ url }, operator) => reload({ url }, operator)],
    [
      'reload, a connection a request',
      ({ url }, operator) => reload({ url, connection: 'one a request' }, operator),
    ],
    ['reload, keep-alive over TLS', ({ httpsUrl }, operator) => reload({ url: httpsUrl }, operator)],
    [`kill -9 every second, ${clients} keep-alive clients`, service => kill({ url: service.url }, service)],
  ]
  for (const [name, run] of runs) {
    const { replaced, tally } = await withService(database, redisUrl, run)
    report(name, replaced, tally)
  }
})
