// The resources of the service. A new one is a definition file, a migration and a line here.
import { groups } from './groups.ts'
import type { Resource } from './resource.ts'
import { users } from './users.ts'

export const resources: readonly Resource[] = [users, groups]
