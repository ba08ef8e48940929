// The epochs of the connections to a database: one ends when the database cannot serve, or when a server accepts no writes any more.
import type { PoolConnection } from 'knex/lib/dialects/mysql2/index.js'

/** The epochs of a database. The pools that share them replace their connections of an earlier one. */
export interface Epochs {
  /** Increases when an outage begins, and when a server is found that accepts no writes any more. */
  number: number
  /** The connections that are open: the epochs in which they were opened, and the servers. */
  readonly connections: Map<PoolConnection, { readonly epoch: number; readonly server: string }>
  /** The server that has accepted the last connection. */
  server?: string | undefined
}

export const createEpochs = (): Epochs => ({ number: 0, connections: new Map() })

/**
 * Shortens the silence after which the connections of earlier epochs to other servers are reset. Call it when the database can serve
 * again: what waits for a dead server would hold up later requests, which other connections can serve.
 */
export function limitSilence({ number, connections, server }: Epochs, silenceMs: number): void {
  for (const [{ stream }, opened] of connections)
    if (opened.epoch < number && opened.server !== server && (stream.timeout ?? 0) > silenceMs)
      stream.setTimeout(silenceMs)
}
