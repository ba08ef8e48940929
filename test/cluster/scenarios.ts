// The scenarios of `npm run test:cluster`: one part of the trial fails and comes back while a checked load runs.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Status } from '../../src/supervisor/control-ports/status.ts'
import { heldLocksOn } from '../faults/held-locks.ts'
import type { Scenario } from '../faults/run-scenarios.ts'
import { executeOn } from '../support/execute.ts'
import { ask } from '../support/service.ts'
import type { Part } from '../trial/part.ts'
import type { Trial } from '../trial/trial.ts'
import { hasOwnNetwork, separate } from './partition.ts'
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

/**
 * Galera can cut off a server that goes on running.
 * @param ms how long; by default, longer than the others take to agree that it is gone
 */
const isolate =
  (ms?: number): Scenario<ClusterContext>['run'] =>
  context =>
    underLoad(context, true, async pause => {
      const url = context.trial.databaseUrls.at(-1) ?? ''
      const set = (value: 0 | 1) => `SET GLOBAL wsrep_provider_options = 'gmcast.isolate=${value}'`
      await executeOn(url, set(1))
      await (ms === undefined ? pause() : delay(ms))
      await executeOn(url, set(0))
    })

const ofGalera: Readonly<Record<string, Scenario<ClusterContext>>> = {
  'database-cut-off': { title: 'a database is cut off from the others and comes back', run: isolate() },
  // The servers suspect each other after 2 s, so that at the end of this cut they disagree about which of them is gone.
  'database-cut-off-briefly': {
    title: 'a database is cut off from the others for 2 s',
    longOnly: true,
    run: isolate(2000),
  },
  'held-locks': {
    title: 'names and rows that another session holds on the same server',
    longOnly: true,
    run: context => heldLocksOn(context.trial.databaseUrls[0]).run(context),
  },
}

function pidOf({ name, pid }: Part): number {
  const id = pid()
  if (id === undefined) throw new Error(`${name} does not run`)
  return id
}

/** For the others, a primary that does not respond is the same as one that is cut off; its connections stay open. */
const suspended: Scenario<ClusterContext> = {
  title: 'the primary is suspended and goes on',
  run: context =>
    underLoad(context, true, async pause => {
      const pid = pidOf(await findPrimary(context.trial))
      process.kill(pid, 'SIGSTOP')
      try {
        await pause()
      } finally {
        process.kill(pid, 'SIGCONT')
      }
    }),
}

/** Returns the port on which the other servers of its group reach a server. */
async function groupPortOf(url: string): Promise<number> {
  const rows = await executeOn(url, 'SELECT @@group_replication_local_address AS address')
  if (!Array.isArray(rows)) throw new Error('the server has no address')
  return Number(new URL(`tcp://${rows[0]?.address}`).port)
}

/** Unlike a suspended primary, this one still responds to the nodes while the others elect another one. */
const separated: Scenario<ClusterContext> = {
  title: 'the primary is cut off from the other databases, but not from the nodes, and comes back',
  // It leaves its group after 10 s.
  longOnly: true,
  run: context =>
    underLoad(context, true, async pause => {
      const { trial } = context
      const primary = await findPrimary(trial)
      const ports = await Promise.all(trial.databaseUrls.map(groupPortOf))
      const [port = 0] = ports.splice(trial.databases.indexOf(primary), 1)
      const rejoin = await separate({ pid: pidOf(primary), port }, ports)
      try {
        await pause()
        assert.notEqual(await findPrimary(trial), primary)
      } finally {
        await rejoin()
      }
      // A server that has left its group joins it again when it starts.
      await primary.stop()
      await primary.start()
    }),
}

const ofGroup: Readonly<Record<string, Scenario<ClusterContext>>> = {
  'database-cut-off': suspended,
  ...(hasOwnNetwork() ? { 'primary-cut-off': separated } : {}),
}

export const scenariosFor = (mysql: boolean) => ({ ...scenarios, ...(mysql ? ofGroup : ofGalera) })
