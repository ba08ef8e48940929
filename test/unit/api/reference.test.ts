// Validation of references to a related record: the fault codes of checkReference.
import test from 'ava'
import { checkReference } from '../../../src/api/requests/validation.ts'
import type { JsonObject } from '../../../src/core/json-object.ts'
import { groups } from '../../../src/model/groups.ts'
import { MAX_ID } from '../../../src/model/resource.ts'
import { checked, codesOf } from '../../support/faults.ts'

const check = (body: JsonObject) => checked(faults => checkReference(groups, body, faults))

test('reference: an id from 1 to 2^53 - 1 is valid', t => {
  for (const id of [1, 2, MAX_ID]) t.deepEqual(check({ id }), { values: { id }, faults: [] })
})

test('reference: a missing id is missing_field', t => {
  for (const body of [{}, { id: undefined }, { id: null }]) {
    const { values, faults } = check(body)
    t.deepEqual(values, { id: undefined })
    t.deepEqual(codesOf(faults), ['id missing_field'])
  }
})

test('reference: any other id is invalid_field', t => {
  for (const value of [
    0,
    -1,
    1.5,
    MAX_ID + 1,
    Number.POSITIVE_INFINITY,
    Number.NaN,
    '1',
    '',
    true,
    false,
    [1],
    {},
  ]) {
    const { values, faults } = check({ id: value })
    t.deepEqual(values, { id: undefined })
    t.deepEqual(codesOf(faults), ['id invalid_field'], JSON.stringify(value))
  }
})

test('reference: meta and fields of the related resource are ignored', t => {
  for (const value of ['a', '', 5, null, {}, []])
    t.deepEqual(check({ id: 1, name: value, meta: value }), {
      values: { id: 1 },
      faults: [],
    })
})

test('reference: all faults are reported, and a valid id is returned beside them', t => {
  const { values, faults } = check({ role: 1, id: 3, first_name: 'a' })
  t.deepEqual(values, { id: 3 })
  t.deepEqual(codesOf(faults), ['role unknown_field', 'first_name unknown_field'])
  const inherited: JsonObject = JSON.parse('{"toString":1,"__proto__":{"id":1},"constructor":2}')
  t.deepEqual(codesOf(check(inherited).faults), [
    'id missing_field',
    'toString unknown_field',
    '__proto__ unknown_field',
    'constructor unknown_field',
  ])
  t.deepEqual(codesOf(check({ role: 1, id: 'x' }).faults), ['id invalid_field', 'role unknown_field'])
})

test('reference: names of unknown fields are cut after 100 code points', t => {
  const name = '😀'.repeat(100)
  t.deepEqual(codesOf(check({ id: 1, [name]: 1 }).faults), [`${name} unknown_field`])
  t.deepEqual(codesOf(check({ id: 1, [`${name}x`]: 1 }).faults), [`${name}… unknown_field`])
})
