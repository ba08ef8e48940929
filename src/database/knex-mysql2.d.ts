// Knex has no type declarations for the clients of its dialects.
declare module 'knex/lib/dialects/mysql2/index.js' {
  import type { Socket } from 'node:net'
  import { Knex } from 'knex'
  import type { Connection } from 'mysql2'

  interface Statement {
    sql: string
    bindings?: unknown[]
    /** The rows or the result header, and the columns. */
    response?: [unknown, unknown]
  }

  type PoolConnection = Connection & { stream: Socket }

  interface Pool extends Knex.TarnPoolLike {
    readonly max: number
    numUsed(): number
    numFree(): number
    numPendingAcquires(): number
  }

  export default class extends Knex.Client {
    connectionSettings: object
    pool: Pool
    acquireConnection(): Promise<PoolConnection>
    releaseConnection(connection: PoolConnection): Promise<void>
    acquireRawConnection(): Promise<PoolConnection>
    validateConnection(connection: PoolConnection): Promise<boolean>
    _query(connection: PoolConnection, statement: Statement): Promise<Statement>
  }
  export type { PoolConnection, Statement }
}
