// A copy of the collections that follows the change feed with the program of the client's guide, and its comparison with the
// tables.
import assert from 'node:assert/strict'
import { type Copy, keepCopy } from '../client/copy.ts'
import { executeOn } from './execute.ts'
import { until } from './until.ts'

const MAX_DIFFERENCES = 5
const endSql = 'SELECT last_id, (SELECT COUNT(*) FROM change_queue) AS waiting FROM change_head'

/** The record as JSON text without the statuses, which are no part of a record. */
const textOf = (item: object) => JSON.stringify(item, (key, value) => (key === 'meta' ? undefined : value))

const textsOf = (items: ReadonlyMap<number, object>) => [...items.values()].map(textOf)

/** @throws Error if the result of the statement has no rows */
async function rowsOf(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const rows = await executeOn(url, sql)
  if (!Array.isArray(rows)) throw new Error(`no rows: ${sql}`)
  return rows
}

/** Returns all records of the tables as `textOf` writes those of the copy. Nothing may change them meanwhile. */
async function readTables(url: string): Promise<{ users: string[]; groups: string[] }> {
  const people = await rowsOf(url, 'SELECT id, first_name, last_name FROM users')
  const teams = await rowsOf(url, 'SELECT id, name FROM `groups`')
  const memberships = await rowsOf(
    url,
    'SELECT user_id, id, name FROM memberships JOIN `groups` ON id = group_id ORDER BY user_id, group_id',
  )
  const groupsOf = new Map<unknown, object[]>()
  for (const { user_id, ...team } of memberships)
    groupsOf.set(user_id, [...(groupsOf.get(user_id) ?? []), team])
  return {
    users: people.map(person => textOf({ ...person, groups: groupsOf.get(person.id) ?? [] })),
    groups: teams.map(textOf),
  }
}

export type FeedCopy = ReturnType<typeof startCopy>

/** Keeps a copy of what the service at `url` stores until `stop`. */
export function startCopy(url: string) {
  const copy: Copy = { users: new Map(), groups: new Map(), position: 0 }
  const stopping = new AbortController()
  let failure: unknown
  const keeping = keepCopy(url, copy, stopping.signal).catch(error => {
    failure = error
  })

  async function untilAtEnd(database: string): Promise<void> {
    let end: unknown
    const isAtEnd = async () => {
      if (failure !== undefined) throw failure
      const [row] = await rowsOf(database, endSql)
      end = row?.last_id
      return Number(row?.waiting) === 0 && copy.position === Number(end)
    }
    await until(isAtEnd, {
      everyMs: 50,
      describe: () => `the copy is at ${copy.position}, the feed at ${end}`,
    })
  }

  return {
    /**
     * Waits until the copy, and each of these databases if they are replicas, are at the end of the feed. Then it compares
     * the copy with the tables of each of them. Call it after all writes.
     * @throws AssertionError if they differ, or the error that has ended the copy
     * @returns the number of records
     */
    async compare(...databases: readonly string[]): Promise<number> {
      for (const database of databases) await untilAtEnd(database)
      const copied = { users: new Set(textsOf(copy.users)), groups: new Set(textsOf(copy.groups)) }
      for (const database of databases) {
        const tables = await readTables(database)
        for (const kind of ['users', 'groups'] as const) {
          const missing = tables[kind].filter(text => !copied[kind].has(text))
          // A difference of large lists takes long to compute.
          assert.deepEqual(missing.slice(0, MAX_DIFFERENCES), [], `these ${kind} are missing in the copy`)
          if (copied[kind].size === tables[kind].length) continue
          const stored = new Set(tables[kind])
          const surplus = [...copied[kind]].filter(text => !stored.has(text))
          assert.deepEqual(surplus.slice(0, MAX_DIFFERENCES), [], `the copy has ${kind} that do not exist`)
        }
      }
      return copy.users.size + copy.groups.size
    },

    async stop(): Promise<void> {
      stopping.abort()
      await keeping
    },
  }
}
