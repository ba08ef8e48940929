// Executes statements on one database server.
import mysql from 'mysql2/promise'

/** Executes the statements on a connection of their own. @returns the rows, or the result, of the last one */
export async function executeOn(url: string, ...statements: string[]): Promise<unknown> {
  const connection = await mysql.createConnection(url)
  try {
    let result: unknown
    for (const statement of statements) [result] = await connection.query(statement)
    return result
  } finally {
    connection.destroy()
  }
}

/** The statement after which the reads of a session wait until a server of a cluster has applied all earlier writes. */
export const waitForWrites = (isMariadb: boolean): string =>
  isMariadb ? 'SET SESSION wsrep_sync_wait = 1' : "SET SESSION group_replication_consistency = 'BEFORE'"
