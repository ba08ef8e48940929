// The `cluster` baseline: the constant response from several processes, with node:cluster's round-robin scheduling.
import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'

cluster.schedulingPolicy = cluster.SCHED_RR
cluster.setupPrimary({ exec: fileURLToPath(new URL('constant.ts', import.meta.url)) })
for (let worker = 0; worker < Number(process.env.WORKERS); worker++) cluster.fork()
// The workers exit with the primary, because their IPC channel closes.
process.once('SIGTERM', () => process.exit())
