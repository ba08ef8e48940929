// Checks before a measurement that all servers return the same responses: no server may be faster by doing less.
import assert from 'node:assert/strict'
import { createClient } from '../support/http.ts'
import type { Comparison, Request } from './comparisons.ts'
import type { RunningServer } from './servers.ts'

const SAMPLES = 20
const UNKNOWN_ID = Number.MAX_SAFE_INTEGER
/** Allowed relative difference in length between a constant response and the real one. */
const LENGTH_TOLERANCE = 0.1

/** Fills in a request template as request.lua does. Every `{unique}` value begins with `unique`. */
function fill(request: Request, id: number, unique: string): { path: string; body?: string } {
  let count = 0
  const replace = (template: string) =>
    template.replace(/\{(id|unique)\}/g, (_, name) => (name === 'id' ? String(id) : `${unique} ${++count}`))
  return {
    path: replace(request.path),
    ...(request.body !== undefined && { body: replace(request.body) }),
  }
}

/** Parses a response without the parts that may differ: `meta`, and the ids that a POST assigned. */
function comparable(text: string, method: Request['method']): unknown {
  return JSON.parse(text, (key, value) =>
    key === 'meta' || (key === 'id' && method === 'POST') ? undefined : value,
  )
}

async function ask(server: RunningServer, request: Request, id: number, sample: number) {
  const { path, body } = fill(request, id, `sample ${sample}`)
  const client = createClient(server.url)
  const headers = { ...server.headers, ...(body !== undefined && { 'content-type': 'application/json' }) }
  const { status, text } = await client.send(request.method, path, headers, body).finally(client.close)
  return { status, text, body }
}

/**
 * Sends the same requests, including one for an unknown user, to all servers and compares the responses.
 * @throws AssertionError that shows the difference
 */
export async function assertSameResponses(
  { name, request, baselines }: Comparison,
  servers: readonly RunningServer[],
  users: number,
): Promise<void> {
  for (let sample = 0; sample <= SAMPLES; sample++) {
    const id = sample === SAMPLES ? UNKNOWN_ID : 1 + Math.floor((sample * (users - 1)) / (SAMPLES - 1))
    let first: Awaited<ReturnType<typeof ask>> | undefined
    for (const server of servers) {
      if (server.isConstant && id === UNKNOWN_ID) continue
      const answer = await ask(server, request, id, sample)
      first ??= answer
      const message = `${name}: ${server.name} responded ${answer.status} ${answer.text.slice(0, 500)}`
      assert.equal(answer.status, first.status, message)
      if (baselines.some(one => one.server === server.name && one.statusOnly)) continue
      if (server.isConstant) {
        assert.ok(
          Math.abs(answer.text.length / first.text.length - 1) <= LENGTH_TOLERANCE,
          `${message}: its length differs from the service's response by more than ${LENGTH_TOLERANCE * 100} %`,
        )
        continue
      }
      const expected = request.method === 'POST' ? answer.body : first.text
      const actual = comparable(answer.text, request.method)
      assert.deepEqual(actual, comparable(expected ?? '', request.method), message)
    }
  }
}
