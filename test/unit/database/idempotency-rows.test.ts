// The claims of Idempotency-Keys that meet another transaction, and the end of the removal of expired ones.
import test from 'ava'
import { claimKeys, deleteExpired } from '../../../src/database/idempotency-rows.ts'
import type { Modified } from '../../../src/database/results.ts'

/** A transaction that reads no rows. */
const transactionOf = (execute: () => Promise<Modified>) => ({
  query: async () => [],
  select: async () => [],
  execute,
  record() {},
  changes: [],
})

test('idempotency keys: one that another transaction has locked or inserted is in progress', async t => {
  for (const [code, expected] of [
    ['ER_LOCK_NOWAIT', 'request_in_progress'],
    ['ER_DUP_ENTRY', 'request_in_progress'],
    ['ER_NO_SUCH_TABLE', 'ER_NO_SUCH_TABLE'],
  ] as const) {
    const trx = transactionOf(async () => {
      throw Object.assign(new Error('refused'), { code })
    })
    const claims = [{ key: 'a', fingerprint: 'a', keepSeconds: 1 }]
    await t.throwsAsync(claimKeys(trx, claims), { any: true, code: expected })
  }
})

test('idempotency keys: expired ones are left only if a statement has deleted as many as it may', async t => {
  for (const [affectedRows, mayBeLeft] of [
    [0, false],
    [199, false],
    [200, true],
  ] as const) {
    const trx = transactionOf(async () => ({ insertId: 0, affectedRows }))
    t.is(await deleteExpired(trx, 1), mayBeLeft, `${affectedRows}`)
  }
})
