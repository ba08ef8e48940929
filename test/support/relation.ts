// The relation of users with groups.
import { limitedRelations } from '../../src/model/resource.ts'
import { users } from '../../src/model/users.ts'

const [first] = limitedRelations(users)
if (first === undefined) throw new Error('the resource user has no relation')

export const relation = first
