// Writes a group in one transaction: claims the Idempotency-Keys of its requests, writes its items, and saves the responses.
import { ApiError } from '../../core/api-error.ts'
import type { Change } from '../changes.ts'
import {
  type Claim,
  claimKeys,
  type Receipt,
  releaseKeys,
  type SavedResponse,
  saveResponses,
} from '../idempotency-rows.ts'
import type { Transaction } from '../transaction.ts'
import type { Result } from './outcome.ts'
import type { Entry, WriterOptions } from './writer.ts'

/** @throws Error if there are fewer changes than outcomes with a change */
function assertRecorded(results: readonly (Result | 'locked')[], changes: readonly Change[]): void {
  let changed = 0
  for (const result of results)
    if (typeof result === 'object')
      for (const outcome of result) if (typeof outcome === 'object' && outcome.changed) changed++
  if (changes.length < changed)
    throw new Error(`a writer has changed ${changed} records, but recorded ${changes.length} changes`)
}

/** Applies items. @throws Error if the writer does not return a result for each item, or has not recorded its changes */
async function applyRecorded<I>(
  { apply }: Pick<WriterOptions<I>, 'apply'>,
  trx: Transaction,
  items: readonly I[],
): Promise<readonly (Result | 'locked')[]> {
  const results = await apply(trx, items)
  if (results.length !== items.length) throw new Error('a writer has not returned one result for each item')
  assertRecorded(results, trx.changes)
  return results
}

/** Returns the response to a write, or the error of one that has changed nothing, which is not saved. */
function responseTo(receipt: Receipt, result: Result): SavedResponse | ApiError {
  try {
    return receipt.responseOf(result)
  } catch (error) {
    if (error instanceof ApiError && typeof result === 'string') return error
    throw error
  }
}

type Delivery = (() => void) | 'locked'

/**
 * @param beforeWrite is called between the claim of the keys and the write
 * @returns for each entry a function that delivers its result
 * @throws ApiError if the key of one of the requests, or the response to it, is refused
 */
export async function writeGroup<I>(
  writer: Pick<WriterOptions<I>, 'apply'>,
  trx: Transaction,
  entries: readonly Entry<I>[],
  beforeWrite?: (trx: Transaction) => Promise<void>,
): Promise<readonly Delivery[]> {
  const saved = await claimKeys(
    trx,
    entries.flatMap(({ receipt }) => receipt ?? []),
  )
  const writing = entries.filter(({ receipt }) => receipt === undefined || !saved.has(receipt.key))
  await beforeWrite?.(trx)
  const items = writing.map(({ item }) => item)
  const results = items.length === 0 ? [] : await applyRecorded(writer, trx, items)
  const resultOf = new Map(writing.map((entry, index) => [entry, results[index]]))
  const unused: Claim[] = []
  const responses: { readonly claim: Claim; readonly response: SavedResponse }[] = []
  const deliveries = entries.map((entry): Delivery => {
    const result = resultOf.get(entry) ?? 'locked'
    if (entry.receipt === undefined) return result === 'locked' ? result : () => entry.settle(result)
    const { receipt, settle } = entry
    const row = saved.get(receipt.key)
    if (row !== undefined) return () => settle(row)
    const response = result === 'locked' ? result : responseTo(receipt, result)
    if (response === 'locked' || response instanceof ApiError) unused.push(receipt)
    else responses.push({ claim: receipt, response })
    if (response === 'locked') return response
    return response instanceof ApiError ? () => entry.reject(response) : () => settle(response)
  })
  await saveResponses(trx, responses)
  await releaseKeys(trx, unused)
  return deliveries
}
