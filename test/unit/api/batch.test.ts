// Batches: which bodies are batches, how they are rejected, and the text of the response.
import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { notAnObject } from '../../../src/api/errors.ts'
import {
  batchText,
  entriesOf,
  failed,
  MAX_FAULTS_OF_ENTRY,
  type ResponseEntry,
} from '../../../src/api/requests/batch.ts'
import { checkBody } from '../../../src/api/requests/validation.ts'
import { ApiError, type Fault, Faults } from '../../../src/core/api-error.ts'
import type { JsonObject } from '../../../src/core/json-object.ts'
import { recordText } from '../../../src/model/representation.ts'
import { MAX_ID } from '../../../src/model/resource.ts'
import { users } from '../../../src/model/users.ts'
import { codesOf } from '../../support/faults.ts'

const limit = 3

/** Asserts that the batch is rejected with `faults`, each `field code`, and returns the error. */
function expectRejected(t: ExecutionContext, body: JsonObject, ...faults: string[]): ApiError {
  const error = t.throws(() => entriesOf(body, 'users', limit), { any: true, instanceOf: ApiError })
  if (!(error instanceof ApiError)) throw new TypeError('not an ApiError')
  t.deepEqual(codesOf(error.faults), faults)
  t.is(error.status, 400)
  return error
}

test('batch: a body without the array is not a batch', t => {
  for (const body of [{}, { first_name: 'a' }, { groups: [{}] }, { meta: {} }])
    t.is(entriesOf(body, 'users', limit), undefined)
})

test('batch: an inherited property does not make a body a batch', t => {
  for (const name of ['toString', 'constructor', '__proto__']) t.is(entriesOf({}, name, limit), undefined)
})

test('batch: 1 to the maximum number of entries are returned unchanged', t => {
  for (const users of [[null], [{}, 'x'], [1, [], { users: [] }]])
    t.is(entriesOf({ users }, 'users', limit), users)
})

test('batch: more entries are limit_exceeded, with both numbers in the message', t => {
  const error = expectRejected(t, { users: [1, 2, 3, 4] }, 'users limit_exceeded')
  t.is(error?.code, 'limit_exceeded')
  t.regex(error?.message ?? '', /^users: .*\b4\b.*\b3\b/)
})

test('batch: an empty array is invalid_batch', t => {
  const error = expectRejected(t, { users: [] }, 'users invalid_batch')
  t.is(error?.code, 'invalid_batch')
})

test('batch: a value that is not an array is invalid_batch', t => {
  for (const users of [null, undefined, {}, { length: 1 }, 'x', '', 0, 1, true, false])
    expectRejected(t, { users }, 'users invalid_batch')
})

test('batch: meta is ignored', t => {
  const users = [{}]
  for (const meta of [{}, null, 'x', []]) t.is(entriesOf({ meta, users }, 'users', limit), users)
})

test('batch: other fields beside the array are invalid_batch', t => {
  for (const field of ['first_name', 'id', 'groups', 'Users', 'toString', ''])
    for (const value of [null, undefined, 1])
      expectRejected(t, { users: [{}], [field]: value }, `${field} invalid_batch`)
  const withProto: JsonObject = JSON.parse('{"users":[{}],"__proto__":1}')
  expectRejected(t, withProto, '__proto__ invalid_batch')
})

test('batch: all faults are reported, first that of the array, then the other fields', t => {
  const error = expectRejected(
    t,
    { zeta: 1, users: [1, 2, 3, 4], alpha: 2 },
    'users limit_exceeded',
    'zeta invalid_batch',
    'alpha invalid_batch',
  )
  t.is(error?.code, 'limit_exceeded')
  expectRejected(t, { id: 1, users: 'x' }, 'users invalid_batch', 'id invalid_batch')
  expectRejected(t, { users: [], id: 1 }, 'users invalid_batch', 'id invalid_batch')
})

test('batch: names of other fields are cut after 100 code points', t => {
  const name = '😀'.repeat(100)
  expectRejected(t, { users: [{}], [name]: 1 }, `${name} invalid_batch`)
  expectRejected(t, { users: [{}], [`${name}x`]: 1 }, `${name}… invalid_batch`)
})

test('batch: a failed entry has its fields, status 400, a message and a code', t => {
  const exists = new ApiError('user_exists', 'user already exists')
  t.is(exists.status, 409)
  const { text, result } = failed(exists, { first_name: 'a"b', last_name: '\u2028' })
  t.is(result, 'failed')
  t.deepEqual(JSON.parse(text), {
    first_name: 'a"b',
    last_name: '\u2028',
    meta: { status: 400, message: 'user already exists', code: 'user_exists' },
  })
})

test('batch: a failed entry without known fields has only meta', t => {
  t.deepEqual(JSON.parse(failed(new ApiError('group_not_found', 'message')).text), {
    meta: { status: 400, message: 'message', code: 'group_not_found' },
  })
})

const faultsOf = (count: number): Fault[] =>
  Array.from({ length: count }, (_, index) => ({
    field: `f${index + 1}`,
    code: 'unknown_field',
    message: `m${index + 1}`,
  }))

/** Returns the error of an entry with these faults. */
function faultyEntry(list: readonly Fault[]): ApiError {
  const faults = new Faults(MAX_FAULTS_OF_ENTRY)
  for (const fault of list) faults.add(() => fault)
  return faults.error() ?? new ApiError('internal_error', 'no fault')
}

test('batch: a failed entry lists its faults', t => {
  const faults = faultsOf(2)
  t.deepEqual(JSON.parse(failed(faultyEntry(faults), { first_name: 'a' }).text), {
    first_name: 'a',
    meta: { status: 400, message: 'm1; m2', code: 'unknown_field', errors: faults },
  })
})

test('batch: an entry lists at most 10 faults and counts the rest', t => {
  t.is(MAX_FAULTS_OF_ENTRY, 10)
  const ten = faultyEntry(faultsOf(10))
  t.deepEqual(ten.faults, faultsOf(10))
  t.true(ten.message.endsWith('; m10'))
  const eleven = faultyEntry(faultsOf(11))
  t.deepEqual(eleven.faults, faultsOf(10))
  t.is(eleven.message, `${ten.message}; and 1 more`)
})

test('batch: an entry that is not an object is invalid_body', t => {
  const error = notAnObject('an entry')
  t.is(error.code, 'invalid_body')
  t.is(error.status, 400)
  t.true(error.message.startsWith('an entry '))
})

test('batch: the response has the entries in order and counts created and failed ones', t => {
  const responses: ResponseEntry[] = [
    { text: '{"id":1}', result: 'created' },
    failed(new ApiError('user_exists', 'user already exists')),
    { text: '{"id":2}', result: 'unchanged' },
    { text: '{"id":3}', result: 'created' },
  ]
  const text = batchText('users', responses)
  t.true(text.startsWith(`{"users":[${responses.map(response => response.text).join(',')}],"meta":`))
  const { users, meta } = JSON.parse(text)
  t.deepEqual(
    users.map(({ id }: { id?: number }) => id),
    [1, undefined, 2, 3],
  )
  t.deepEqual(meta, { status: 200, message: '2 of 4 created, 1 failed', created: 2, failed: 1 })
})

test('batch: the status of the response is 200 even if every entry fails', t => {
  const responses = [failed(new ApiError('missing_field', 'a')), failed(new ApiError('missing_field', 'b'))]
  const { groups, meta } = JSON.parse(batchText('groups', responses))
  t.is(groups.length, 2)
  t.deepEqual(meta, { status: 200, message: '0 of 2 created, 2 failed', created: 0, failed: 2 })
})

test('batch: the response is within the bound that limits.responseBytes allows', t => {
  // The names that messages escape most: twice in the text of a message, which is JSON again.
  const character = fc.constantFrom('"', '\\', '\n', '\u0001', '\ud800', '\u007f', 'é', '€', '😀', 'x')
  const name = fc.string({ unit: character, maxLength: 110 })
  const value = fc.oneof(fc.constant(0), fc.string({ unit: character, maxLength: 255 }))
  const fields = fc.dictionary(
    fc.oneof(name, fc.constantFrom('id', 'groups', 'first_name', 'last_name')),
    value,
    {
      maxKeys: 14,
    },
  )
  const property = fc.property(fc.array(fields, { minLength: 1, maxLength: 5 }), entries => {
    const responses = entries.map(entry => {
      const faults = new Faults(MAX_FAULTS_OF_ENTRY)
      const values = checkBody(users, entry, 'create', faults)
      const error = faults.error()
      return error === undefined
        ? { text: recordText(users, { id: MAX_ID, ...values }), result: 'created' as const }
        : failed(error, values)
    })
    const bodyBytes = Buffer.byteLength(JSON.stringify({ users: entries }))
    return Buffer.byteLength(batchText('users', responses)) <= 6 * bodyBytes + 4096 * entries.length
  })
  t.notThrows(() => fc.assert(property, { numRuns: 2000 }))
})
