// Knex has no type declarations for the clients of its dialects.
declare module 'knex/lib/dialects/mysql2/index.js' {
  import type { Socket } from 'node:net'
  import { Knex } from 'knex'
  import type { Connection } from 'mysql2'

  interface Statement {
    sql: string
    bindings?: unknown[]
    options?: object
    /** The rows or the result header, and the columns. */
    response?: [unknown, unknown]
  }

  export default class extends Knex.Client {
    _query(connection: Connection & { stream: Socket }, statement: Statement): Promise<Statement>
  }
  export type { Statement }
}
