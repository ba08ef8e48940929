// Creates the write functions of one resource, for tests that use the database without a service.
import type { Counts } from '../../src/database/counting/counts.ts'
import type { Database } from '../../src/database/database.ts'
import { createDelete } from '../../src/database/writing/delete.ts'
import { createInserts } from '../../src/database/writing/insert.ts'
import { createUpdate } from '../../src/database/writing/update.ts'
import { resources } from '../../src/model/index.ts'
import type { Resource } from '../../src/model/resource.ts'

export const createWriters = (database: Database, counts: Counts, resource: Resource) => ({
  ...createInserts(database, counts, resource),
  update: createUpdate(database, resource),
  remove: createDelete(database, counts, resource, resources),
})
