// The relation of users with groups.

import { users } from '../../src/model/users.ts'

const [first] = users.relations
if (first === undefined) throw new Error('the resource user has no relation')

export const relation = first
