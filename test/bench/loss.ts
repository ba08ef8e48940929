// npx tsx test/bench/loss.ts [requests] [replacements] [rounds]: counts the requests that clients lose while
// workers are replaced or killed, and during deploys behind HAProxy. Clients do not retry: every response other than 200
// counts.
import type { Status } from '../../src/supervisor/control-ports/status.ts'
import { type LoadOptions, startLoad, type Tally } from '../support/load.ts'
import { createOperator, type Operator } from '../support/operator.ts'
import { startPair } from '../support/pair.ts'
import { type Service, startService } from '../support/service.ts'
import { withStores } from './stores.ts'

const [requests = 30_000, replacements = 100, rounds = 20] = process.argv.slice(2).map(Number)
const workers = 2
const clients = 32
// The pause keeps the machine busy without building up queues.
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

/** Reloads under load until both `replacements` and `requests` are reached. */
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

/**
 * Kills a worker 60 times, each time when the one before has been replaced and 1,000 requests are answered. Another worker is
 * ready then; otherwise connections would be refused. The requests in flight of a killed worker are lost.
 */
async function kill(options: LoadOptions, operator: Operator): Promise<{ replaced: number; tally: Tally }> {
  const load = await startLoad({ ...options, clients, pauseMs })
  const killed = new Set<number>()
  while (killed.size < 60) {
    await load.requests(1000)
    const isReady = ({ pid = 0, state }: Status['workers'][number]) => state === 'ready' && !killed.has(pid)
    const status = await operator.until(status => status.workers.filter(isReady).length === workers)
    const victim = status.workers.find(isReady)?.pid
    if (victim === undefined) throw new Error('there is no worker')
    process.kill(victim, 'SIGKILL')
    killed.add(victim)
  }
  return { replaced: killed.size, tally: await load.stop() }
}

/**
 * Restarts two instances in turn behind HAProxy. The http port is drained by its failing check, the https port by
 * refusing connections.
 */
async function deploy(database: string, redisUrl: string): Promise<void> {
  const pair = await startPair({ database, env: { REDIS_URL: redisUrl }, checkEvery: '500ms', delayMs: 3000 })
  const { url, httpsUrl } = pair.haproxy
  const loads = {
    'keep-alive': await startLoad({ url, clients, pauseMs }),
    'one connection per request': await startLoad({ url, clients: 8, pauseMs, connection: 'one a request' }),
    'keep-alive over TLS, TCP check': await startLoad({ url: httpsUrl, clients: 8, pauseMs }),
  }
  for (let round = 0; round < rounds; round++)
    for (const name of ['A', 'B'] as const) await pair.restart(name, 'socket')
  for (const [name, load] of Object.entries(loads))
    report(`${rounds} deploys of two instances behind HAProxy, ${name}`, 2 * rounds, await load.stop())
  await pair.stop()
}

function report(name: string, replaced: number, { requests, failed, failures }: Tally): void {
  const reasons = failed === 0 ? '' : ` ${JSON.stringify(failures)}`
  console.log(`${name}: ${replaced} replacements, ${requests} requests, ${failed} lost${reasons}`)
}

const users = 1000
await withStores(users, async ({ createPopulated, redisUrl }) => {
  const database = await createPopulated(users)
  const runs: [string, (service: Service, operator: Operator) => ReturnType<typeof reload>][] = [
    ['reload, keep-alive', ({ url }, operator) => reload({ url }, operator)],
    [
      'reload, one connection per request',
      ({ url }, operator) => reload({ url, connection: 'one a request' }, operator),
    ],
    ['reload, keep-alive over TLS', ({ httpsUrl }, operator) => reload({ url: httpsUrl }, operator)],
    [`kill -9, ${clients} keep-alive clients`, ({ url }, operator) => kill({ url }, operator)],
  ]
  for (const [name, run] of runs) {
    const { replaced, tally } = await withService(database, redisUrl, run)
    report(name, replaced, tally)
  }
  await deploy(database, redisUrl)
})
