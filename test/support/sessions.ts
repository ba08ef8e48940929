// The sessions of a database.
import type mysql from 'mysql2/promise'
import { databaseNameOf } from '../../src/config/host-urls.ts'

export interface Session {
  readonly id: number
  readonly command: string
  /** What its statement does or waits for; empty or null without one. */
  readonly state: string | null
  /** The text of its statement. */
  readonly info: string | null
}

/**
 * Returns the sessions in the database of `url`. It reads them with SHOW: on MySQL, `information_schema.processlist` fails while a statement contains a character above U+FFFF
 * (ER_CANNOT_CONVERT_STRING).
 */
export async function sessionsOf(url: string, connection: mysql.Connection): Promise<Session[]> {
  const [rows] = await connection.query<mysql.RowDataPacket[]>('SHOW FULL PROCESSLIST')
  const ours = rows.filter(({ db }) => db === databaseNameOf(url))
  return ours.map(({ Id, Command, State, Info }) => ({
    id: Number(Id),
    command: Command,
    state: State,
    info: Info,
  }))
}
