// The names that the driver gives to errors of the database and of its connections, by what they mean for the service.

/** The server accepts no writes: it was demoted, has left its cluster, or is about to. */
export const demoted = [
  'ER_OPTION_PREVENTS_STATEMENT',
  'ER_READ_ONLY_MODE',
  'ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION',
  'ER_UNKNOWN_COM_ERROR',
  'ER_SERVER_OFFLINE_MODE',
  'ER_ERROR_DURING_COMMIT',
  'ER_BEFORE_DML_VALIDATION_ERROR',
  'ER_RUN_HOOK_ERROR',
  'ER_GRP_TRX_CONSISTENCY_NOT_ALLOWED',
  'ER_GRP_TRX_CONSISTENCY_BEFORE',
  'ER_GRP_TRX_CONSISTENCY_AFTER_ON_TRX_BEGIN',
  'ER_GRP_TRX_CONSISTENCY_BEGIN_NOT_ALLOWED',
]

/** The server, or the account, has as many connections as it may have. */
export const full = ['ER_CON_COUNT_ERROR', 'ER_TOO_MANY_USER_CONNECTIONS', 'ER_USER_LIMIT_REACHED']

/** The account may not execute the statement. */
export const denied = [
  'ER_TABLEACCESS_DENIED_ERROR',
  'ER_COLUMNACCESS_DENIED_ERROR',
  'ER_DBACCESS_DENIED_ERROR',
]

/** The account is locked, its password has expired, or the server does not accept it from this host, or demands TLS. */
const barred = [
  'ER_ACCOUNT_HAS_BEEN_LOCKED',
  'ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK',
  'ER_MUST_CHANGE_PASSWORD_LOGIN',
  'ER_MUST_CHANGE_PASSWORD',
  'ER_ACCESS_DENIED_NO_PASSWORD_ERROR',
  'ER_HOST_NOT_PRIVILEGED',
  'ER_SECURE_TRANSPORT_REQUIRED',
  // The driver has MySQL's names for numbers that MariaDB uses for others: ER_USER_IS_BLOCKED, after too many wrong passwords, and
  // ER_ACCOUNT_HAS_BEEN_LOCKED.
  'ER_BULK_PARSER_UNEXPECTED_CHAR_AFTER_COLUMN_TERMINATOR',
  'ER_BULK_PARSER_INCOMPLETE_ESCAPE_SEQUENCE',
]

/**
 * Waiting does not resolve these: the user, its privileges, the database name or the certificate of the server is wrong, or one
 * of both has no TLS.
 */
export const misconfigured = [
  'ER_ACCESS_DENIED_ERROR',
  ...barred,
  ...denied,
  'ER_BAD_DB_ERROR',
  'HANDSHAKE_SSL_ERROR',
  'HANDSHAKE_NO_SSL_SUPPORT',
]

/**
 * The connection is lost or cannot be established, or the server cannot serve at the moment: it accepts no writes or no more
 * clients, interrupts statements, has no space left, or rejects the account or its statement.
 */
export const unreachable = [
  ...demoted,
  'ECONNREFUSED',
  'EMFILE',
  'ENFILE',
  // The queue of a Unix socket is full.
  'EAGAIN',
  'EADDRNOTAVAIL',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
  'EACCES',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'PROTOCOL_CONNECTION_LOST',
  ...misconfigured,
  ...full,
  'ER_HOST_IS_BLOCKED',
  'ER_CANT_CREATE_THREAD',
  'ER_OUT_OF_RESOURCES',
  'ER_OUTOFMEMORY',
  'ER_SERVER_SHUTDOWN',
  'ER_NORMAL_SHUTDOWN',
  // MySQL has ended the session after its wait_timeout: this process was suspended during a transaction.
  'ER_CLIENT_INTERACTION_TIMEOUT',
  'ER_DISK_FULL',
  'ER_RECORD_FILE_FULL',
  // A temporary file of the server.
  'EE_WRITE',
  'ER_QUERY_INTERRUPTED',
  // MariaDB reports an interrupted UPDATE of several tables with this code.
  'ER_UNKNOWN_ERROR',
]

/**
 * Another transaction holds a lock. MariaDB reports ER_LOCK_WAIT_TIMEOUT for NOWAIT, too, and ER_AUTOINC_READ_FAILED for the lock of the
 * ids: an INSERT … SELECT or LOAD DATA holds it to its end.
 */
export const locked = ['ER_LOCK_NOWAIT', 'ER_LOCK_WAIT_TIMEOUT', 'ER_AUTOINC_READ_FAILED']

/** Contention with another transaction or with a schema change; this transaction was, or is going to be, rolled back. */
export const contended = [
  ...locked,
  'ER_LOCK_DEADLOCK',
  'ER_CHECKREAD',
  'ER_TRANSACTION_ROLLBACK_DURING_COMMIT',
  'ER_TABLE_DEF_CHANGED',
]
