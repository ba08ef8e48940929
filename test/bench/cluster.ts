// The constant answer from several processes, connections dealt out by node:cluster in turn.
import cluster from 'node:cluster'
import { fileURLToPath } from 'node:url'

cluster.schedulingPolicy = cluster.SCHED_RR
cluster.setupPrimary({ exec: fileURLToPath(new URL('constant.ts', import.meta.url)) })
for (let worker = 0; worker < Number(process.env.WORKERS); worker++) cluster.fork()
// The workers end with the primary: without it there is nobody who hands them connections.
process.once('SIGTERM', () => process.exit())
