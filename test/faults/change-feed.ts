// Scenario: the change feed while workers, the supervisor, the database and single statements are killed, with drains and
// reloads in between. Readers follow it from its beginning, and a program keeps a copy of the collections.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import mysql from 'mysql2/promise'
import { startCopy } from '../support/feed-copy.ts'
import { startFeedLoad, startFeedReader } from '../support/feed-load.ts'
import { createOperator } from '../support/operator.ts'
import { pick } from '../support/pick.ts'
import { claimPorts } from '../support/ports.ts'
import { createDatabase, type Service, startService } from '../support/service.ts'
import { sessionsOf } from '../support/sessions.ts'
import { until } from '../support/until.ts'
import type { Scenario } from './scenario.ts'

const WRITERS = 12
const drain = { delayMs: 200, idleMs: 200, deadlineMs: 3000 }

/** Kills the statements that the service is executing. */
async function killStatements(url: string): Promise<void> {
  const server = new URL(url)
  server.pathname = ''
  const connection = await mysql.createConnection(server.href)
  for (const { id, command } of await sessionsOf(url, connection))
    if (command === 'Query') await connection.query(`KILL QUERY ${id}`).catch(() => {})
  await connection.end()
}

export const changeFeed: Scenario = {
  title:
    'change feed: workers, supervisor, database and statements killed, with drains and reloads in between',

  async run({ short, mysql }) {
    const database = await createDatabase()
    const claim = await claimPorts()
    const folder = await mkdtemp(join(tmpdir(), 'users-api-feed-'))
    const ports = [{ label: 'http', port: claim.first, protocol: 'http' as const }]
    const start = (): Promise<Service> =>
      startService({ workers: 2, database, config: { ports, stateFile: join(folder, 'state.json'), drain } })
    let service = await start()
    const { url } = service
    const load = startFeedLoad([url], WRITERS)
    const readers = (['stream', 'pages', 'stream', 'pages'] as const).map(kind =>
      startFeedReader(url, kind, 0),
    )
    const copy = startCopy(url)
    const done: Record<string, number> = {}

    const actions: (() => Promise<void>)[] = [
      async function workers() {
        process.kill(pick(await service.workers()), 'SIGKILL')
      },
      async function statements() {
        await killStatements(database)
      },
      async function databases() {
        await mysql.kill()
        await mysql.start()
      },
      async function drains() {
        const operator = createOperator(service)
        await operator.run('drain', 'http')
        await operator.run('wait', 'http')
        await operator.run('resume', 'http')
      },
      async function reloads() {
        await createOperator(service).run('reload')
      },
      async function supervisors() {
        service.supervisor.kill('SIGKILL')
        await service.stop()
        service = await start()
      },
    ]
    const goal = short ? 3000 : 100_000
    for (let round = 0; round < actions.length || load.acknowledged() < goal; round++) {
      const enough = load.acknowledged() + goal / 20
      await until(() => load.acknowledged() >= enough)
      // Statements are killed more often than all else.
      const action = actions[round < actions.length ? round : pick([0, 1, 1, 1, 2, 3, 4, 5])]
      await action?.()
      done[action?.name ?? ''] = (done[action?.name ?? ''] ?? 0) + 1
      await createOperator(service).until(
        ({ workers }) => workers.filter(({ state }) => state === 'ready').length === 2,
      )
    }
    await load.stop()
    const events = await load.verify(readers)
    const copied = await copy.compare(database)
    await Promise.all([copy.stop(), ...readers.map(reader => reader.stop())])
    assert.equal(await service.stop(), 0)
    await claim.release()
    await rm(folder, { recursive: true })
    const kills = Object.entries(done).map(([name, count]) => `${count} ${name}`)
    return `${kills.join(', ')}: ${load.acknowledged()} acknowledged changes, each exactly once in ${events} events, the same for 4 readers; a copy of ${copied} records equals the tables`
  },
}
