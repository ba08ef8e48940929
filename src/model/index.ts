// The resources of the service. A new one needs a definition file, a migration and an entry in this list.
import { groups } from './groups.ts'
import type { Resource } from './resource.ts'
import { users } from './users.ts'

export const resources: readonly Resource[] = [users, groups]
