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
