// Retries of a failing operation: success, errors that are not transient, timeout.
import test from 'ava'
import { retry } from '../../../src/core/retry.ts'

const failing = (errors: readonly Error[]) => {
  const left = [...errors]
  return async () => {
    const error = left.shift()
    if (error !== undefined) throw error
    return 'done'
  }
}
const transient = { timeoutMs: 60_000, pauseMs: () => 0, isTransient: () => true }

test('retry: repeats until an attempt succeeds', async t => {
  const attempts: number[] = []
  const options = { ...transient, beforePause: (_: unknown, attempt: number) => void attempts.push(attempt) }
  t.is(await retry(failing([new Error('one'), new Error('two')]), options), 'done')
  t.deepEqual(attempts, [1, 2])
})

test('retry: an error that is not transient is thrown at once', async t => {
  const options = { ...transient, isTransient: (error: unknown) => String(error).includes('one') }
  const error = await t.throwsAsync(retry(failing([new Error('one'), new Error('two')]), options))
  t.is(error?.message, 'two')
})

test('retry: after the timeout, the last error is thrown', async t => {
  const options = { ...transient, timeoutMs: -1 }
  const error = await t.throwsAsync(retry(failing([new Error('one')]), options))
  t.is(error?.message, 'one')
})

test('retry: an error thrown by beforePause ends the retries', async t => {
  const fail = (): never => {
    throw new Error('the process has ended')
  }
  for (const beforePause of [fail, async () => fail()]) {
    const error = await t.throwsAsync(retry(failing([new Error('one')]), { ...transient, beforePause }))
    t.is(error?.message, 'the process has ended')
  }
})
