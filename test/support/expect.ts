// Assertions about what all responses of the API have in common.
import type { ExecutionContext } from 'ava'
import type { Answer } from './http.ts'
import type { Service } from './service.ts'

/** Text that must not appear in a response: driver error codes, stack traces, file names of the source. */
const leaks = /\bER_[A-Z]|SQLSTATE|node_modules|\n\s+at |\.(js|ts):\d+/

/** Asserts that the response is 200 with a JSON body that repeats the status in `meta.status`. */
export function expectOk(t: ExecutionContext, answer: Answer): void {
  t.is(answer.status, 200, answer.text)
  t.regex(answer.headers['content-type'] ?? '', /^application\/json\b/)
  t.is(answer.body.meta.status, 200)
  t.is(answer.body.meta.code, undefined)
  t.truthy(answer.headers['request-id'])
}

/** Asserts that the response is a complete error with `status` and one of `codes`, and leaks no internals. */
export function expectError(
  t: ExecutionContext,
  answer: Answer | undefined,
  status: number,
  ...codes: string[]
): void {
  if (answer === undefined) {
    t.fail(`the connection was closed without a response, expected ${status} ${codes}`)
    return
  }
  t.is(answer.status, status, answer.text)
  t.regex(answer.headers['content-type'] ?? '', /^application\/json\b/, answer.text)
  const { meta, ...rest } = answer.body
  t.deepEqual(rest, {})
  t.is(meta.status, status)
  t.true(codes.includes(meta.code ?? ''), `${codes} expected: ${answer.text}`)
  t.true(typeof meta.message === 'string' && meta.message !== '', answer.text)
  t.is(meta.request_id, String(answer.headers['request-id']))
  t.notRegex(answer.text, leaks)
}

/** Asserts that the body has exactly `faults`, codes by field or parameter, and their first code in `meta`. */
export function expectFaults(t: ExecutionContext, answer: Answer, faults: Record<string, string>): void {
  const { errors = [], code } = answer.body.meta
  const found = Object.fromEntries(errors.map(fault => [fault.field ?? fault.parameter, fault.code]))
  t.deepEqual(found, faults, answer.text)
  t.is(code, errors[0]?.code)
  for (const { message } of errors) t.true(typeof message === 'string' && message !== '', answer.text)
}

/** Runs `action` and asserts that it stored no records and that no worker was replaced. */
export async function expectNoSideEffects(
  t: ExecutionContext,
  service: Service,
  count: () => Promise<number>,
  action: () => Promise<void>,
): Promise<void> {
  const [stored, workers] = [await count(), await service.workers()]
  await action()
  t.is(await count(), stored)
  t.deepEqual(await service.workers(), workers)
}
