import type { Counts } from '../../src/database/counting/counts.ts'
import type { Database } from '../../src/database/database.ts'
import { until } from './until.ts'

/** Moves all recorded changes into `counts`, also those that a compaction in the background is moving already. */
export const compactAll = (database: Database, counts: Counts) =>
  until(async () => {
    await counts.compact()
    return (await database.knex('count_changes').first('id')) === undefined
  })
