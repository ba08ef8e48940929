// The scenarios of `npm run test:cluster`: one part of the trial fails and comes back while a checked load runs.
import { isDeepStrictEqual } from 'node:util'
import type { Part } from '../../src/cli/cluster/part.ts'
import type { Trial } from '../../src/cli/cluster/trial.ts'
import type { Status } from '../../src/supervisor/control/status.ts'
import type { Scenario } from '../faults/run-scenarios.ts'
import { executeOn } from '../support/execute.ts'
import { ask } from '../support/service.ts'
import { type ClusterContext, underLoad, untilUsed } from './under-load.ts'

/** Returns the primary of a group; of Galera, which has none, the first database. */
async function findPrimary({ databases, databaseUrls }: Trial): Promise<Part> {
  const readOnly = await Promise.all(
    databaseUrls.map(url => executeOn(url, 'SELECT CAST(@@read_only AS SIGNED) AS value')),
  )
  const primary = databases.find((_, index) => isDeepStrictEqual(readOnly[index], [{ value: 0 }]))
  if (primary === undefined) throw new Error('no database accepts writes')
  return primary
}

const scenarios: Readonly<Record<string, Scenario<ClusterContext>>> = {
  'database-killed': {
    title: 'a database (of a group, its primary) is killed with -9 and comes back',
    run: context =>
      underLoad(context, true, async pause => {
        const primary = await findPrimary(context.trial)
        await primary.stop('SIGKILL')
        await pause()
        await primary.start()
      }),
  },
  'node-killed': {
    title: 'a node is killed with -9 and comes back',
    run: context =>
      underLoad(context, true, async pause => {
        const [, node] = context.trial.nodes
        if (node === undefined) return
        const status: Status = JSON.parse((await ask(`${node.controlUrl}/status`))?.text ?? '')
        // All processes at once: without their supervisor, workers would complete their requests.
        for (const { pid } of status.workers) if (pid !== undefined) process.kill(pid, 'SIGKILL')
        await node.stop('SIGKILL')
        await pause()
        await node.start()
      }),
  },
  'rolling-restart': {
    title: 'all nodes are restarted one by one',
    run: context =>
      underLoad(context, false, async () => {
        for (const node of context.trial.nodes) {
          await node.stop()
          await node.start()
          await untilUsed(node)
        }
      }),
  },
  'redis-master-killed': {
    title: 'the master of Redis is killed with -9 and comes back as a replica',
    longOnly: true,
    run: context =>
      underLoad(context, false, async pause => {
        const [master] = context.trial.redis
        await master?.stop('SIGKILL')
        await pause()
        await master?.start()
      }),
  },
}

/** Galera can cut off a server that goes on running. */
const isolated: Scenario<ClusterContext> = {
  title: 'a database is cut off from the others and comes back',
  run: context =>
    underLoad(context, true, async pause => {
      const url = context.trial.databaseUrls.at(-1) ?? ''
      const isolate = (value: 0 | 1) => `SET GLOBAL wsrep_provider_options = 'gmcast.isolate=${value}'`
      await executeOn(url, isolate(1))
      await pause()
      await executeOn(url, isolate(0))
    }),
}

/** For the others, a primary that does not respond is the same as one that is cut off; its connections stay open. */
const suspended: Scenario<ClusterContext> = {
  title: 'the primary is suspended and goes on',
  run: context =>
    underLoad(context, true, async pause => {
      const primary = await findPrimary(context.trial)
      const pid = primary.pid()
      if (pid === undefined) throw new Error(`${primary.name} does not run`)
      process.kill(pid, 'SIGSTOP')
      try {
        await pause()
      } finally {
        process.kill(pid, 'SIGCONT')
      }
    }),
}

export const scenariosFor = (mysql: boolean) => ({
  ...scenarios,
  'database-cut-off': mysql ? suspended : isolated,
})
