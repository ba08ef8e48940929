// Runs a checked load on the trial of three nodes while a part of it fails or is replaced, and checks everything afterwards.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { retry } from '../../src/core/retry.ts'
import type { Status } from '../../src/supervisor/control-ports/status.ts'
import { createAttempts } from '../faults/attempts.ts'
import { startVerifiedLoad } from '../faults/verified-load.ts'
import { executeOn } from '../support/execute.ts'
import type { FeedCopy } from '../support/feed-copy.ts'
import { startFeedLoad, startFeedReader } from '../support/feed-load.ts'
import { createClient } from '../support/http.ts'
import { ask } from '../support/service.ts'
import { until } from '../support/until.ts'
import type { Node } from '../trial/node.ts'
import type { Trial } from '../trial/trial.ts'
import { startCrossNodeLoad } from './cross-node-load.ts'

export interface ClusterContext {
  /** Run the shorter form that CI uses. */
  readonly short: boolean
  readonly trial: Trial
  /** Follows the change feed through HAProxy. Undefined if the nodes run a revision without the feed. */
  readonly copy: FeedCopy | undefined
}

const CLIENTS = 6
/** Of records whose changes are compared with the change feed. */
const WRITERS = 3
/** Longer than the databases take to agree that one of them is gone. */
const MIN_FAULT_MS = 6000
const MAX_RESPONSE_MS = 30_000
/** All nodes must serve again, and all databases must agree, this long after the fault has ended. */
const MAX_RECOVERY_MS = 15_000

/** @throws AssertionError if a database or a node has another number of users than the others */
async function compareTotals({ databaseUrls, nodes }: Trial): Promise<void> {
  const rows = await Promise.all(
    databaseUrls.map(url => executeOn(url, 'SELECT CAST(COUNT(*) AS CHAR) AS total FROM users')),
  )
  for (const node of nodes) {
    const api = createClient(node.url)
    const total = await api.count('/v1/users').finally(api.close)
    for (const row of rows) assert.deepEqual(row, [{ total: String(total) }], `${node.name} reports ${total}`)
  }
}

/** Databases apply what others have committed a moment later. */
const assertTotals = (trial: Trial) =>
  retry(() => compareTotals(trial), {
    timeoutMs: MAX_RECOVERY_MS,
    pauseMs: () => 100,
    isTransient: () => true,
  })

/** Waits until HAProxy sends requests to a node that has been started: its checks say that it regards the node as up. */
export const untilUsed = ({ controlUrl }: Node): Promise<true> =>
  until(
    async () => {
      const answer = await ask(`${controlUrl}/status`)
      if (answer === undefined) return false
      const { ports }: Status = JSON.parse(answer.text)
      return ports.http?.checkers.some(({ server_state }) => server_state?.startsWith('UP'))
    },
    { withinMs: MAX_RECOVERY_MS },
  )

/** Waits until all nodes serve. */
async function untilServing({ nodes }: Trial): Promise<void> {
  for (const { url, controlUrl, name } of nodes) {
    const isServing = async () => {
      const answers = await Promise.all([fetch(`${controlUrl}/readyz`), fetch(`${url}/v1/users/1`)])
      return answers.every(({ status }) => status !== 503)
    }
    await until(() => isServing().catch(() => false), {
      withinMs: MAX_RECOVERY_MS,
      everyMs: 100,
      describe: () => `${name} serves again`,
    })
  }
}

/** Follows the change feed through all nodes, while writers change records of their own. */
async function followFeed(urls: readonly string[], copy: FeedCopy) {
  const answers = await Promise.all(urls.map(url => fetch(`${url}/v1/changes?after=latest`)))
  for (const { status, url } of answers) assert.equal(status, 200, url)
  const { meta } = JSON.parse((await answers[0]?.text()) ?? '')
  const start = Number(/after=(\d+)/.exec(meta.links.next)?.[1])
  const load = startFeedLoad(urls, WRITERS)
  const readers = urls.flatMap(url => [
    startFeedReader(url, 'stream', start),
    startFeedReader(url, 'pages', start),
  ])
  return {
    stop: load.stop,
    async verify(): Promise<string> {
      const events = await load.verify(readers)
      await Promise.all(readers.map(reader => reader.stop()))
      return `${load.acknowledged()} changes exactly once in ${events} events, the same for ${readers.length} readers`
    },
    /** Compares the copy with the tables of each database. */
    async compareCopy(databaseUrls: readonly string[]): Promise<string> {
      return `a copy of ${await copy.compare(...databaseUrls)} records equals the tables`
    },
  }
}

/**
 * Runs the load while `fault` happens, and checks everything afterwards.
 * @param loses whether requests may fail
 * @param fault gets a function that lets the fault last for a while
 * @returns the summary
 * @throws AssertionError if a write is lost, a read is stale, a key was done twice, or a total is wrong
 */
export async function underLoad(
  { trial, short, copy }: ClusterContext,
  loses: boolean,
  fault: (pause: () => Promise<void>) => Promise<void>,
): Promise<string> {
  const attempts = createAttempts(MAX_RESPONSE_MS, [502, 503, 504])
  const { url, nodes } = trial
  const verified = await startVerifiedLoad({
    url,
    clients: CLIENTS,
    maxResponseMs: MAX_RESPONSE_MS,
    attempts,
  })
  const nodeUrls = nodes.map(node => node.url)
  const crossed = await startCrossNodeLoad({ url, nodeUrls, clients: CLIENTS, attempts })
  const feed = copy && (await followFeed(nodeUrls, copy))
  const serving = () => attempts.until('acknowledged', short ? 300 : 3000)
  // How long the fault lasts.
  const faultPause = () => delay(short ? MIN_FAULT_MS : 15_000)
  try {
    await serving()
    await fault(faultPause)
    await untilServing(trial)
    await serving()
  } finally {
    await Promise.all([verified.stop(), crossed.stop(), feed?.stop()])
  }
  const records = await verified.verify()
  await crossed.verify()
  const followed = (await feed?.verify()) ?? 'no feed'
  await assertTotals(trial)
  const copied = (await feed?.compareCopy(trial.databaseUrls)) ?? 'no copy'
  const { acknowledged, unavailable, lost, refused, slowestMs } = attempts.tally
  const { crossReads, keys, replayed, races } = crossed.counts
  if (!loses) assert.deepEqual({ unavailable, lost, refused }, { unavailable: 0, lost: 0, refused: 0 })
  return (
    `${acknowledged} acknowledged, all ${records} records verified, 0 of ${crossReads} reads through the nodes ` +
    `stale, ${keys} keys done once (${replayed} replays), ${races} races for a name won once, totals exact, ${followed}, ${copied}; ` +
    `${unavailable + lost + refused} failed in ${attempts.secondsWithFailures.size} different seconds, slowest ` +
    `${(slowestMs / 1000).toFixed(1)} s`
  )
}
