// All writes to a resource's records.
import type { Resource } from '../../model/resource.ts'
import type { Counts } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { createRemoving, type Removing } from './delete.ts'
import { type Creating, createCreating } from './insert.ts'
import { type Changing, createChanging } from './update.ts'

export interface Writes extends Creating, Changing, Removing {}

export function createWrites(database: Database, counts: Counts, resource: Resource): Writes {
  return {
    ...createCreating(database, counts, resource),
    ...createChanging(database, resource),
    ...createRemoving(database, counts, resource),
  }
}
