// The sessions of a database server.
import type mysql from 'mysql2/promise'

export interface Session {
  readonly id: number
  /** Null: the session has chosen no database. */
  readonly db: string | null
  readonly command: string
  /** What its statement does or waits for; empty or null without one. */
  readonly state: string | null
  /** The text of its statement. */
  readonly info: string | null
}

/**
 * Reads them with SHOW: on MySQL, `information_schema.processlist` fails while a statement contains a character above U+FFFF
 * (ER_CANNOT_CONVERT_STRING).
 */
export async function sessionsOf(connection: mysql.Connection): Promise<Session[]> {
  const [rows] = await connection.query<mysql.RowDataPacket[]>('SHOW FULL PROCESSLIST')
  return rows.map(({ Id, db, Command, State, Info }) => ({
    id: Number(Id),
    db,
    command: Command,
    state: State,
    info: Info,
  }))
}
