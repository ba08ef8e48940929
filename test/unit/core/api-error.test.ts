// ApiError: an Error without a stack. Faults: one error for all that is wrong with a request.
import test from 'ava'
import { ApiError, type Fault, Faults, MAX_FAULTS, unavailable } from '../../../src/core/api-error.ts'
import { reasonOf } from '../../../src/core/error-reason.ts'

test('ApiError: is an Error with a message, a code and a cause, but captures no stack', t => {
  const cause = new Error('the cause')
  const error = unavailable(cause, 'the message')
  t.true(error instanceof ApiError && error instanceof Error)
  t.like(error, { name: 'ApiError', message: 'the message', code: 'unavailable', status: 503, cause })
  t.is(String(error), 'ApiError: the message')
  t.is(reasonOf(error), 'the cause')
  t.is(reasonOf(unavailable(undefined, 'the message')), 'the message')
  t.is(Reflect.get(error, 'stack'), undefined)
})

const fault = (at: number): Fault => ({ field: `f${at}`, code: 'unknown_field', message: `m${at}` })

test('Faults: without a fault there is no error', t => {
  const faults = new Faults()
  t.is(faults.error(), undefined)
  t.notThrows(() => faults.throw())
})

test('Faults: a fault beyond the maximum is counted, but not created', t => {
  const faults = new Faults()
  let created = 0
  for (let at = 1; at <= 120_000; at++)
    faults.add(() => {
      created++
      return fault(at)
    })
  t.is(created, MAX_FAULTS)
  const error = faults.error()
  t.deepEqual(
    error?.faults,
    Array.from({ length: MAX_FAULTS }, (_, index) => fault(index + 1)),
  )
  t.is(error?.code, 'unknown_field')
  t.true(error?.message.endsWith('; m100; and 119900 more'))
  t.throws(() => faults.throw(), { any: true, instanceOf: ApiError })
})
