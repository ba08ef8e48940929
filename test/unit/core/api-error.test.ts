// ApiError: an Error without a stack.
import test from 'ava'
import { ApiError, unavailable } from '../../../src/core/api-error.ts'
import { reasonOf } from '../../../src/core/error-reason.ts'

test('ApiError: is an Error with a message, a code and a cause, but captures no stack', t => {
  const cause = new Error('the cause')
  const error = unavailable(cause, 'the message')
  t.true(error instanceof ApiError && error instanceof Error)
  t.like(error, { name: 'ApiError', message: 'the message', code: 'unavailable', status: 503, cause })
  t.is(String(error), 'ApiError: the message')
  t.is(reasonOf(error), 'the message')
  t.is(Reflect.get(error, 'stack'), undefined)
})
