// The scenario of `npm run test:cluster -- --from <revision>`: the nodes go one by one from this revision to the current code,
// and back, with one Redis and one database.
import assert from 'node:assert/strict'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createRecount } from '../../src/database/counting/recount.ts'
import { createDatabase } from '../../src/database/database.ts'
import { resources } from '../../src/model/index.ts'
import type { Scenario } from '../faults/run-scenarios.ts'
import type { Build } from '../trial/node.ts'
import { ownBuild, type Trial } from '../trial/trial.ts'
import { type ClusterContext, underLoad, untilUsed } from './under-load.ts'

async function replaceNodes({ nodes }: Trial, build: Build): Promise<void> {
  for (const node of nodes) {
    await node.stop()
    node.use(build)
    await node.start()
    await untilUsed(node)
  }
}

/**
 * Corrects the blocks in which members are counted, which the earlier version does not know.
 * @returns the number of blocks that were wrong
 * @throws AssertionError if a total is wrong
 */
async function correctBlocks(url: string): Promise<number> {
  const { database: settings } = await loadConfig()
  const database = createDatabase({ ...settings, url }, createLog('warn', 'test'))
  try {
    const recount = createRecount(database, resources)
    const differences = await recount.correct()
    const totals = new Map<string, number>()
    for (const { kind, slot, kept, actual } of differences) {
      const key = `${kind} ${slot}`
      totals.set(key, (totals.get(key) ?? 0) + kept - actual)
    }
    for (const [key, difference] of totals) assert.equal(difference, 0, `the total of ${key} is wrong`)
    assert.deepEqual(await recount.find(), [])
    return differences.length
  } finally {
    await database.close()
  }
}

export const rollingUpgrade = (earlier: Build): Scenario<ClusterContext> => ({
  title: 'all nodes are upgraded one by one, and go back',
  async run(context) {
    const { trial } = context
    const summary = await underLoad(context, false, async pause => {
      const current = ownBuild(() => {})
      await current.migrate(trial.databaseUrl)
      await replaceNodes(trial, current)
      await pause()
      await replaceNodes(trial, earlier)
    })
    return `${summary}; ${await correctBlocks(trial.databaseUrl)} blocks corrected`
  },
})
