// The outcomes of writes: one vocabulary for all writers and for the handlers.
import type { Row } from '../../model/row.ts'

/**
 * Why a record was not written. `exists`: another record has the same unique values. `precondition_failed`: its version does
 * not meet the precondition of the request. `full`: it has as many memberships as it can have.
 */
export type Refusal = 'not_found' | 'exists' | 'precondition_failed' | 'full' | 'membership_not_found'

/** A record that is as the request wants it: its row after the write, or its last one if the record is deleted. */
export interface Stored {
  readonly row: Row
  /** False if it was so before. */
  readonly changed: boolean
}

export type Outcome = Stored | Refusal

/** The result of a write: an outcome for each of its records in order, or a refusal of all of them. */
export type Result = readonly Outcome[] | Refusal
