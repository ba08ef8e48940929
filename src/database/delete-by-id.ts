// SQL that deletes rows of a table into which other transactions insert.

/**
 * The join starts with the ids. With IN, the server may scan a small table, and then waits for the uncommitted rows of other
 * transactions.
 */
export const deleteByIdSql = (table: string, rowCount: number): string =>
  `DELETE ${table} FROM (SELECT ? AS id${' UNION ALL SELECT ?'.repeat(rowCount - 1)}) AS listed
  STRAIGHT_JOIN ${table} ON ${table}.id = listed.id`
