// Entry of the supervisor, the process that pm2 starts: it owns the control ports and the workers.
import cluster from 'node:cluster'
import { randomBytes } from 'node:crypto'
import http from 'node:http'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { ConfigError, loadConfig } from './config.ts'
import { exitCodes, FatalError } from './exit-codes.ts'
import { listen } from './listen.ts'
import { createLog } from './log.ts'
import { type ListenerState, readFact, type Wanted } from './messages.ts'
import { readKeyPairs } from './supervisor/certificates.ts'

async function supervise(): Promise<void> {
  const config = await loadConfig()
  if (config.database.url === null) throw new ConfigError(['database.url: is missing, set DATABASE_URL'])
  const log = createLog(config.log.level, 'supervisor')
  const keyPairs = await readKeyPairs(config).catch((error: Error) => {
    throw new ConfigError([error.message])
  })
  const ticketKeys = randomBytes(48).toString('base64')
  const listening = new Set<number>()
  let state: ListenerState = 'serving'
  const labels = config.ports.map(port => port.label)

  for (const port of config.ports) {
    const server = http.createServer((request, response) => {
      const label = labels.find(label => request.url === `/healthcheck/${label}`)
      const [status, code] =
        label === undefined
          ? [400, 'port_not_found']
          : state !== 'serving'
            ? [404, 'maintenance']
            : listening.size === 0
              ? [503, 'no_worker']
              : [200, 'serving']
      response.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
      response.end(JSON.stringify({ meta: { status, message: code, code } }))
    })
    await listen(
      server,
      config.control.host,
      port.port + config.control.offset,
      `control port of ${port.label}`,
    )
  }

  const wanted = (): Wanted => ({
    type: 'wanted',
    ports: Object.fromEntries(labels.map(label => [label, state])),
    keyPairs,
    ticketKeys,
  })
  cluster.schedulingPolicy = cluster.SCHED_RR
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  cluster.setupPrimary({ exec: fileURLToPath(new URL(`./worker.${extension}`, import.meta.url)), args: [] })
  cluster.on('message', (worker, message) => {
    const fact = readFact(message)
    if (fact?.type === 'hello') worker.send(wanted(), () => {})
    if (fact?.type === 'listening') {
      listening.add(worker.id)
      process.send?.('ready')
    }
    if (fact?.type === 'fatal') {
      process.stderr.write(`users-api: ${fact.reason}\n`)
      process.exit(fact.exitCode)
    }
  })
  cluster.on('exit', worker => {
    listening.delete(worker.id)
    if (state === 'serving') setTimeout(() => cluster.fork(), 100)
    else if (Object.keys(cluster.workers ?? {}).length === 0) process.exit(exitCodes.stopped)
  })
  const tell = (next: ListenerState): void => {
    state = next
    for (const worker of Object.values(cluster.workers ?? {})) worker?.send(wanted(), () => {})
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      tell('draining')
      setTimeout(() => tell('closing'), config.drain.delayMs)
    })
  const count = config.workers === 'auto' ? availableParallelism() : config.workers
  for (let started = 0; started < count; started++) cluster.fork()
  log.info({ workers: count }, 'the supervisor is up')
}

try {
  await supervise()
} catch (error) {
  if (!(error instanceof ConfigError || error instanceof FatalError)) throw error
  process.stderr.write(`users-api: ${error.message}\n`)
  process.exit(error instanceof FatalError ? error.exitCode : exitCodes.configuration)
}
