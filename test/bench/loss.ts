// npx tsx test/bench/loss.ts [requests] [replacements] [rounds]: what replacing workers, and deploys behind HAProxy, cost
// the clients in lost requests.
// Clients never repeat a request; each one that is not answered 200 is counted.
import { setTimeout as delay } from 'node:timers/promises'
import { type LoadOptions, startLoad, type Tally } from '../support/load.ts'
import { createOperator, type Operator } from '../support/operator.ts'
import { startPair } from '../support/pair.ts'
import { type Service, startService } from '../support/service.ts'
import { withStores } from './stores.ts'

const [requests = 30_000, replacements = 100, rounds = 20] = process.argv.slice(2).map(Number)
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

/** Kills a worker that is ready every second for a minute; what was in flight in it is lost with it. */
async function kill(options: LoadOptions, operator: Operator): Promise<{ replaced: number; tally: Tally }> {
  const load = await startLoad({ ...options, clients, pauseMs })
  let replaced = 0
  while (replaced < 60) {
    await delay(1000)
    const ready = (await operator.status()).workers.filter(({ state }) => state === 'ready')
    // With nobody left to serve, connections would be refused, too.
    const [victim] = ready.length > 1 ? ready : []
    if (victim?.pid === undefined) continue
    process.kill(victim.pid, 'SIGKILL')
    replaced++
  }
  return { replaced, tally: await load.stop() }
}

/** Restarts one instance after the other behind HAProxy, the http port by its check, the https port by refusing. */
async function deploy(database: string, redisUrl: string): Promise<void> {
  const pair = await startPair({ database, env: { REDIS_URL: redisUrl }, checkEvery: '500ms', delayMs: 3000 })
  const { url, httpsUrl } = pair.haproxy
  const loads = {
    'keep-alive': await startLoad({ url, clients, pauseMs }),
    'a connection a request': await startLoad({ url, clients: 8, pauseMs, connection: 'one a request' }),
    'keep-alive over TLS, TCP check': await startLoad({ url: httpsUrl, clients: 8, pauseMs }),
  }
  for (let round = 0; round < rounds; round++)
    for (const name of ['A', 'B'] as const) await pair.restart(name)
  for (const [name, load] of Object.entries(loads))
    report(`${rounds} deploys of two behind HAProxy, ${name}`, 2 * rounds, await load.stop())
  await pair.stop()
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
    [`kill -9 every second, ${clients} keep-alive clients`, ({ url }, operator) => kill({ url }, operator)],
  ]
  for (const [name, run] of runs) {
    const { replaced, tally } = await withService(database, redisUrl, run)
    report(name, replaced, tally)
  }
  await deploy(database, redisUrl)
})
