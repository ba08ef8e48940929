// What a request is called, in its answer and in the log: as its client says, or by a name of ours.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** What a client may call its request: other values are not repeated. */
export const saneToken = /^[A-Za-z0-9._~+/=-]{1,128}$/

export function requestIdOf({ headers }: IncomingMessage): string {
  const sent = headers['request-id']
  return typeof sent === 'string' && saneToken.test(sent) ? sent : randomUUID()
}
