// npm run test:cluster [-- --short] [-- --mysql] [-- name …]: runs the trial of three nodes and breaks its parts under load.
// Without names it runs all scenarios; --short runs the shorter forms, as CI does. With --from <revision>, it upgrades the
// nodes one by one from this revision of the repository, and goes back.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chooseScenarios, runScenarios } from '../faults/run-scenarios.ts'
import { type FeedCopy, startCopy } from '../support/feed-copy.ts'
import { claimPorts } from '../support/ports.ts'
import { useProjectSettings } from '../support/project-settings.ts'
import { ownBuild, startTrial } from '../trial/trial.ts'
import { buildRevision } from './build-revision.ts'
import { rollingUpgrade } from './rolling-upgrade.ts'
import { scenariosFor } from './scenarios.ts'

const { values, positionals } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    mysql: { type: 'boolean', default: false },
    from: { type: 'string' },
  },
  allowPositionals: true,
})

async function main(): Promise<boolean> {
  const { short, mysql, from } = values
  const base = await mkdtemp(join(tmpdir(), 'users-api-cluster-'))
  const claim = await claimPorts(6)
  try {
    // An earlier revision may not know the settings of this one.
    if (from === undefined) await useProjectSettings(join(base, 'config'))
    const earlier = from === undefined ? undefined : await buildRevision(from, join(base, 'earlier'))
    const scenarios =
      earlier === undefined ? scenariosFor(mysql) : { 'rolling-upgrade': rollingUpgrade(earlier) }
    const chosen = chooseScenarios(scenarios, positionals, short)
    const build = earlier ?? ownBuild(console.log)
    const trial = await startTrial({ base, firstPort: claim.first, mysql, build, print: console.log })
    console.log(`on ${trial.title}, Node ${process.version.slice(1)}`)
    let copy: FeedCopy | undefined
    try {
      // Only an earlier revision can have no feed.
      const hasFeed = earlier === undefined || (await fetch(`${trial.url}/v1/changes`)).status !== 404
      copy = hasFeed ? startCopy(trial.url) : undefined
      return await runScenarios(chosen, { short, trial, copy })
    } finally {
      await copy?.stop()
      await trial.stop()
    }
  } finally {
    await claim.release()
    await rm(base, { recursive: true, force: true })
  }
}

// What this process has started ends with it, but not if it ends by a signal.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))

// Exits explicitly: a failed scenario may leave open handles.
process.exit((await main()) ? 0 : 1)
