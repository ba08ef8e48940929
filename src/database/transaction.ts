// Transactions that are atomic also if the server refuses BEGIN, ROLLBACK or COMMIT. The pool closes the connection then,
// so that the server rolls back.
import type { Knex } from 'knex'

/**
 * Runs `act` in a transaction.
 * @throws the error of `act`, otherwise the error of BEGIN or COMMIT
 */
export async function transact<T>(
  knex: Knex,
  act: (trx: Knex.Transaction) => Promise<T>,
  config?: Knex.TransactionConfig,
): Promise<T> {
  const trx = await knex.transaction(config)
  // If BEGIN was refused, Knex returns a completed transaction. Statements would run in autocommit mode.
  if (trx.isCompleted()) await trx.executionPromise
  let result: T
  try {
    result = await act(trx)
  } catch (error) {
    await trx.rollback(error)
    throw error
  }
  await trx.commit()
  await trx.executionPromise
  return result
}
