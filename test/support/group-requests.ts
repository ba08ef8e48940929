// Requests for groups as bytes, for clients that send them in parts.
import { randomUUID } from 'node:crypto'

export const get = 'GET /v1/groups HTTP/1.1\r\nHost: a\r\n\r\n'

/** Returns the body for the head `post`, with a new name. */
export const body = () => JSON.stringify({ name: randomUUID() })

/** The head of a request that creates a group. */
export const post = `POST /v1/groups HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body().length}\r\n\r\n`
