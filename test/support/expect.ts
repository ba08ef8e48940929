// What every answer of the contract has in common, said once.
import type { ExecutionContext } from 'ava'
import type { Answer } from './http.ts'
import type { Service } from './service.ts'

/** What never belongs into an answer: driver codes, stacks, our own files. */
const leaks = /\bER_[A-Z]|SQLSTATE|node_modules|\n\s+at |\.(js|ts):\d+/

/** The answer is a success in JSON whose `meta.status` mirrors the HTTP status. */
export function expectOk(t: ExecutionContext, answer: Answer): void {
  t.is(answer.status, 200, answer.text)
  t.regex(answer.headers['content-type'] ?? '', /^application\/json\b/)
  t.is(answer.body.meta.status, 200)
  t.is(answer.body.meta.code, undefined)
  t.truthy(answer.headers['request-id'])
}

/** The answer is a whole error of the contract's section 5: this status, one of these codes, nothing leaked. */
export function expectError(
  t: ExecutionContext,
  answer: Answer | undefined,
  status: number,
  ...codes: string[]
): void {
  if (answer === undefined) {
    t.fail(`hung up instead of ${status} ${codes}`)
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

/** The body's faults are exactly these, by field, each with a code and a message; the first one's code leads. */
export function expectFaults(t: ExecutionContext, answer: Answer, faults: Record<string, string>): void {
  const { errors = [], code } = answer.body.meta
  const found = Object.fromEntries(errors.map(fault => [fault.field ?? fault.parameter, fault.code]))
  t.deepEqual(found, faults, answer.text)
  t.is(code, errors[0]?.code)
  for (const { message } of errors) t.true(typeof message === 'string' && message !== '', answer.text)
}

/** Runs `work` and sees that it stored nothing and that the same workers are alive after it. */
export async function expectUnharmed(
  t: ExecutionContext,
  service: Service,
  count: () => Promise<number>,
  work: () => Promise<void>,
): Promise<void> {
  const [stored, workers] = [await count(), await service.workers()]
  await work()
  t.is(await count(), stored)
  t.deepEqual(await service.workers(), workers)
}
