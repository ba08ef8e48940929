// Which versions of the service can still write. Versions before migration 007 count members, but not by blocks, so the blocks
// are exact only if none of these versions runs. Versions before migration 008 append no events to the change feed.

const FIRST_WITH_BLOCKS = 7
/** Migration 009 is older than 008: versions with eight migrations have 009 and lack 008. */
const FIRST_WITH_EVENTS = 9

/** SQL for whether every version that can run counts members by blocks. */
export const exactBlocksSql = `(SELECT min_code_version >= ${FIRST_WITH_BLOCKS} FROM schema_info WHERE id = 1)`

/** SQL for whether every version that can run appends events. */
export const allAppendEventsSql = `(SELECT min_code_version >= ${FIRST_WITH_EVENTS} FROM schema_info WHERE id = 1)`

/**
 * Makes versions before migration 008 refuse to start. Execute it only if all blocks are exact and none of these versions runs:
 * one that was started before does not read it.
 */
export const excludeEarlierSql = `UPDATE schema_info SET min_code_version = ${FIRST_WITH_EVENTS}
  WHERE id = 1 AND min_code_version < ${FIRST_WITH_EVENTS}`
