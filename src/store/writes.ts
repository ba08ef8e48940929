// All writes to a resource's records.
import type { Resource } from '../resources/definition.ts'
import { type Changing, createChanging } from './changing.ts'
import type { Counts } from './counts.ts'
import { type Creating, createCreating } from './creating.ts'
import type { Database } from './database.ts'
import { createRemoving, type Removing } from './removing.ts'

export interface Writes extends Creating, Changing, Removing {}

export function createWrites(database: Database, counts: Counts, resource: Resource): Writes {
  return {
    ...createCreating(database, counts, resource),
    ...createChanging(database, resource),
    ...createRemoving(database, counts, resource),
  }
}
