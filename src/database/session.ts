// Configures the session of a new connection, and checks whether its server accepts writes.
import { promisify } from 'node:util'
import type { Connection } from 'mysql2'
import { rowsOf } from './results.ts'

/** The shortest time that both servers accept. Longer waits are repeated, see `lane/locked-writes.ts`. */
const LOCK_WAIT_S = 1

/**
 * Returns SQL for the statement time limit of the server, which would otherwise continue a statement after
 * the client has given up. MariaDB and MySQL each execute one of the two comments. 0 is no limit.
 */
const statementTimeout = (ms: number) =>
  `/*M! , max_statement_time = ${ms / 1000} */ /*!50708 , max_execution_time = ${ms} */`

/**
 * Returns SQL that makes the server end a silent connection, and so release the locks of a node that vanished during a
 * transaction. Connections that are only idle are closed earlier, by the client. The same limit ends a statement that waits for a
 * table which LOCK TABLES, FLUSH TABLES or ALTER TABLE holds: MySQL does not notice that the client has given up, so such
 * sessions, and the row locks of their transactions, would add up until it accepts no further connection.
 */
function waitTimeouts(ms: number): string {
  const seconds = Math.ceil((2 * ms) / 1000)
  return seconds === 0 ? '' : `, wait_timeout = ${seconds}, lock_wait_timeout = ${seconds}`
}

/**
 * From 1,000 values on, MariaDB would convert IN to a subquery, and would then lock rows in the order of the list instead
 * of the order of the index.
 */
const noInConversion = '/*M! , in_predicate_conversion_threshold = 0 */'

/** MariaDB sorts a text by its first bytes, at most as many as this. A name has up to 1,020. MySQL compares whole names. */
const wholeNames = '/*M! , max_sort_length = 1024 */'

/**
 * The character set and the collation that the driver asks for, which a server can ignore
 * (https://mariadb.com/docs/reference/mdb/cli/mariadbd/character-set-client-handshake/).
 */
const characters =
  'character_set_client = utf8mb4, character_set_results = utf8mb4, collation_connection = utf8mb4_general_ci'

/**
 * Each statement outside of a transaction is committed, COMMIT begins no other transaction, no result is cut, and no
 * statement is rejected because it lacks a condition on a key, reads many rows, or has a time that a change to daylight
 * saving time skips: the migrator writes the times of migrations.
 */
const behavior = `autocommit = 1, completion_type = 0, sql_select_limit = 18446744073709551615, sql_safe_updates = 0, sql_big_selects = 1,
    time_zone = '+00:00'`

/**
 * Makes each transaction wait until its server has applied all writes that the servers of its Galera cluster have committed
 * before: the others apply a write after its COMMIT has returned
 * (https://mariadb.com/kb/en/galera-cluster-system-variables/#wsrep_sync_wait).
 */
const galeraReads = ', wsrep_sync_wait = @@SESSION.wsrep_sync_wait | 1'

/**
 * Does the same for Group Replication, also with one primary: one that was suspended, cut off or replaced does not know at first
 * that the group has another one, and would answer with old data
 * (https://dev.mysql.com/doc/refman/8.4/en/group-replication-consistency-guarantees.html).
 */
const groupReads = "SET SESSION group_replication_consistency = 'BEFORE'"

/**
 * Sets the session variables that results depend on, independent of the server's defaults: strict mode, one
 * escaping rule, the character set, complete results, autocommit, UTC, short lock waits, transactions that can write, READ
 * COMMITTED, which has fewer gap locks and deadlocks, and reads of the latest write in a database cluster. Then it begins a
 * transaction that can write.
 * @param silenceTimeoutMs see PoolSettings
 * @throws the error of a server that accepts no writes, or that is not part of its cluster
 */
export async function prepareSession(raw: Connection, silenceTimeoutMs: number): Promise<void> {
  const query = promisify<string, unknown>(raw.query.bind(raw))
  const result = await query(
    "SHOW VARIABLES WHERE Variable_name IN ('wsrep_sync_wait', 'group_replication_consistency')",
  )
  const variables = new Map(
    rowsOf(result).map(({ Variable_name, Value }) => [String(Variable_name), String(Value)] as const),
  )
  await query(
    `SET SESSION sql_mode = 'STRICT_ALL_TABLES', ${behavior}, ${characters}, innodb_lock_wait_timeout = ${LOCK_WAIT_S}
      ${waitTimeouts(silenceTimeoutMs)} ${statementTimeout(silenceTimeoutMs)} ${noInConversion} ${wholeNames}
      ${variables.has('wsrep_sync_wait') ? galeraReads : ''}`,
  )
  await query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE')
  await query(BEGIN_WRITE)
  await query('ROLLBACK')
  const level = variables.get('group_replication_consistency')
  if (level === undefined) return
  // The check above comes first: it rejects a server that accepts no writes without waiting for the group.
  if (level !== 'BEFORE_AND_AFTER') await query(groupReads)
  await query(BEGIN_WRITE)
  await query('ROLLBACK')
}

/** Fails on a server that accepts no writes, and on a Galera server outside the primary component. It reads no table. */
export const BEGIN_WRITE = 'START TRANSACTION READ WRITE'
