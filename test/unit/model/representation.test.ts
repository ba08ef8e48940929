// The name of a representation, and the check of texts from the cache.
import test from 'ava'
import fc from 'fast-check'
import { groups } from '../../../src/model/groups.ts'
import {
  embeddedText,
  isListOfRecords,
  recordText,
  representationOf,
} from '../../../src/model/representation.ts'
import type { RelatedResource, Relation, Resource } from '../../../src/model/resource.ts'
import { users } from '../../../src/model/users.ts'

const withField = <R extends Resource>(resource: R, name: string): R => ({
  ...resource,
  fields: { ...resource.fields, [name]: { maxCodePoints: 10, required: 'create', example: 'x' } },
})
const relatedTo = (to: RelatedResource, name = 'groups'): Resource => {
  const keys = { table: 'memberships', fromKey: 'user_id', toKey: 'group_id' }
  const relation: Relation = { name, to, ...keys, maxPerRecord: () => 1 }
  return { ...users, relations: [relation] }
}

test('representation: it changes with the fields of the resource and of its relation, and is stable', t => {
  const original = relatedTo(groups)
  const reversed = { ...original, fields: Object.fromEntries(Object.entries(users.fields).reverse()) }
  const others = [
    groups,
    withField(original, 'email'),
    reversed,
    relatedTo(withField(groups, 'email')),
    relatedTo(groups, 'teams'),
  ]
  const names = [original, ...others].map(representationOf)
  t.is(new Set(names).size, names.length)
  t.is(representationOf(relatedTo(groups)), representationOf(original))
  // A part of an ETag after a dot, and of a cache key.
  for (const name of names) t.regex(name, /^[1-9]\d*:[\w-]{8}$/)
})

test('representation: a field is text or missing; a column of another kind is refused', t => {
  t.is(
    embeddedText(users, { id: 1, first_name: null, last_name: 'Lovelace' }),
    '{"id":1,"last_name":"Lovelace"}',
  )
  const others = [1, 0, true, false, new Date(0), Buffer.from('a'), {}, ['a'], 1n]
  for (const first_name of others)
    for (const text of [recordText, embeddedText])
      t.throws(() => text(users, { id: 1, first_name, last_name: 'Lovelace' }), {
        instanceOf: TypeError,
        message: `the column first_name of users returns a ${typeof first_name}: fields are text, so use a column of VARCHAR`,
      })
})

test('representation: only the JSON of an array of objects with ids is a list of records', t => {
  fc.assert(
    fc.property(fc.array(fc.dictionary(fc.string(), fc.jsonValue())), list =>
      isListOfRecords(JSON.stringify(list.map(record => ({ ...record, id: 1 })))),
    ),
  )
  const isRecord = (value: unknown) =>
    typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'number'
  const others = fc.jsonValue().filter(value => !Array.isArray(value) || !value.every(isRecord))
  fc.assert(fc.property(others, value => !isListOfRecords(JSON.stringify(value))))
  for (const text of ['', '[', '[{"id":1}', '[{"id":1}]]', 'users-api:user:1:groups:2:3[]', '[{"id":1},]'])
    t.false(isListOfRecords(text), text)
})
