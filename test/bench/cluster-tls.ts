// The `cluster-tls` baseline: a bare server on node:https with a constant response in several processes. node:cluster gives
// them the same keys for session tickets, so they resume each other's TLS sessions.
import cluster from 'node:cluster'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { constantUser } from './constant-user.ts'
import { port, required } from './environment.ts'

function serve(pem: Buffer): void {
  createServer({ cert: pem, key: pem }, (_, response) => {
    response.setHeader('Content-Type', 'application/json; charset=utf-8')
    response.end(JSON.stringify(constantUser))
  }).listen(port, '127.0.0.1')
}

if (cluster.isPrimary) {
  cluster.schedulingPolicy = cluster.SCHED_RR
  for (let worker = 0; worker < Number(process.env.WORKERS); worker++) cluster.fork()
  // The workers exit with the primary, because their IPC channel closes.
  process.once('SIGTERM', () => process.exit())
} else serve(readFileSync(required('CERTIFICATE')))
