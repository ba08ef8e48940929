// Requests for groups as bytes, for clients that send them in parts.
import { randomUUID } from 'node:crypto'
import type { ExecutionContext } from 'ava'
import type { Operator } from './operator.ts'
import type { Raw } from './raw.ts'

export const get = 'GET /v1/groups HTTP/1.1\r\nHost: a\r\n\r\n'

/** Returns the body for the head `post`, with a new name. */
export const body = () => JSON.stringify({ name: randomUUID() })

/** The head of a request that creates a group. */
export const post = `POST /v1/groups HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body().length}\r\n\r\n`

/** Asserts that a request on a new connection is served. */
export async function assertServed(t: ExecutionContext, open: () => Promise<Raw>): Promise<void> {
  const client = await open()
  t.regex(await client.ask(get), /^HTTP\/1.1 200/)
}

/** Opens a connection to the port `http` with a request in flight, whose body is missing. */
export async function beginRequest(operator: Operator, open: () => Promise<Raw>): Promise<Raw> {
  const client = await open()
  client.write(post)
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  return client
}

/** Sends the body. Asserts that the request is served, and is the last one of its connection. */
export async function finishRequest(t: ExecutionContext, client: Raw): Promise<void> {
  t.regex(await client.ask(body()), /^HTTP\/1.1 200 OK(.|\r\n)*Connection: close/)
}
