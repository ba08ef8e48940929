// A part of the trial cluster: a node, a database, Redis or HAProxy; and the check of those that answer HTTP.
import type { Restartable } from './restartable.ts'

const RESPONSE_TIMEOUT_MS = 2000

export interface Part extends Restartable {
  /** Unique in the cluster, such as `node1`. */
  readonly name: string
  /** The address for messages. */
  readonly address: string
}

/** Returns the status of the response to a GET request. @throws Error if none arrives in time */
export async function statusOf(url: string): Promise<number> {
  const response = await fetch(url, { signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS) })
  await response.body?.cancel()
  return response.status
}
