// Before anything is measured: all servers answer the same, so that none is fast by doing less.
import assert from 'node:assert/strict'
import { createClient } from '../support/http.ts'
import type { Comparison, Request } from './comparisons.ts'
import type { RunningServer } from './servers.ts'

const SAMPLES = 20
const UNKNOWN_ID = Number.MAX_SAFE_INTEGER
/** How far the length of a constant answer may be from the real one's. */
const TOLERANCE = 0.1

/** Fills in a request as request.lua does; every `{unique}` begins with `unique`. */
function fill(request: Request, id: number, unique: string): { path: string; body?: string } {
  let count = 0
  const replace = (template: string) =>
    template.replace(/\{(id|unique)\}/g, (_, name) => (name === 'id' ? String(id) : `${unique} ${++count}`))
  return {
    path: replace(request.path),
    ...(request.body !== undefined && { body: replace(request.body) }),
  }
}

/** What of an answer must be the same: all but `meta`, and but the ids that a create made. */
function essence(text: string, method: Request['method']): unknown {
  return JSON.parse(text, (key, value) =>
    key === 'meta' || (key === 'id' && method === 'POST') ? undefined : value,
  )
}

async function ask(server: RunningServer, request: Request, id: number, sample: number) {
  // A create must be new to each server; a change may be made by all of them.
  const unique = request.method === 'POST' ? `${server.name} ${sample}` : `sample ${sample}`
  const { path, body } = fill(request, id, unique)
  const client = createClient(server.url)
  const headers = body === undefined ? {} : { 'content-type': 'application/json' }
  const { status, text } = await client.send(request.method, path, headers, body).finally(client.close)
  return { status, text, body }
}

/**
 * Asks all servers the same questions, an unknown user's id among them.
 * @throws AssertionError that shows the difference
 */
export async function assertAgreement(
  { name, request, against }: Comparison,
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
      const message = `${name}: ${server.name} answers ${answer.status} ${answer.text.slice(0, 500)}`
      assert.equal(answer.status, first.status, message)
      if (against.some(one => one.server === server.name && one.ownAnswer)) continue
      if (server.isConstant) {
        assert.ok(
          Math.abs(answer.text.length / first.text.length - 1) <= TOLERANCE,
          `${message}: its length is off`,
        )
        continue
      }
      const expected = request.method === 'POST' ? answer.body : first.text
      assert.deepEqual(essence(answer.text, request.method), essence(expected ?? '', request.method), message)
    }
  }
}
