import type { Database } from '../../src/database/database.ts'
import { until } from './until.ts'

/** Moves all recorded changes into `counts`, also those that a compaction in the background is moving already. */
export const compactAll = (database: Database) =>
  until(async () => {
    await database.compact()
    return (await database.knex('count_changes').first('id')) === undefined
  })
