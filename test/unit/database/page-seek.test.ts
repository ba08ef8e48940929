// Which pages cost little however many records there are. All others take turns.
import test from 'ava'
import type { Comparison, Filter, PageQuery } from '../../../src/database/reading/page-query.ts'
import { isBounded } from '../../../src/database/reading/page-seek.ts'
import { users } from '../../../src/model/users.ts'
import { allRecords } from '../../support/pages.ts'
import { relation } from '../../support/relation.ts'

const own = (column: string, comparison: Comparison): Filter => ({ relation: undefined, column, comparison })
const related = (column: string, comparison: Comparison): Filter => ({ relation, column, comparison })

const id = own('id', { operator: 'in', value: [1, 2] })
const firstName = own('first_name', { operator: 'equals', value: 'a' })
const lastName = own('last_name', { operator: 'equals', value: 'b' })
const group = related('id', { operator: 'equals', value: 1 })
const groups = related('name', { operator: 'prefix', value: 'a' })

const cases: readonly [title: string, isBounded: boolean, query: Partial<PageQuery>][] = [
  ['without parameters', true, {}],
  ['at a high start index', true, { startIndex: 1_000_000 }],
  ['by id', true, { sort: [{ column: 'id', descending: false }] }],
  ['by a name', false, { sort: [{ column: 'last_name', descending: false }] }],
  ['with a search', false, { search: ['a'] }],
  ['with ids', true, { filters: [id, firstName], search: ['a'] }],
  ['with a whole name', true, { filters: [firstName, lastName] }],
  ['with a part of a name', false, { filters: [firstName] }],
  ['of the members of a group', true, { filters: [group] }],
  ['of the members of a group, with a name', false, { filters: [group, firstName] }],
  ['with ids and groups', false, { filters: [id, groups] }],
]
for (const [title, expected, query] of cases)
  test(`page: ${title}, it ${expected ? 'costs little' : 'can cost much'}`, t => {
    t.is(isBounded(users, { ...allRecords, ...query }), expected)
  })
