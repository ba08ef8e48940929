// What a transaction has changed. What it stores beside its rows is derived from that (`derived-rows.ts`), and so is the proof of
// a lost COMMIT.
import type { LimitedRelation, Resource } from '../model/resource.ts'

/** The request that causes a change. */
export interface Origin {
  /** The name of the caller; null if the API is open. */
  readonly by: string | null
  readonly requestId: string
}

/** The versions of a row before and after a change; undefined: the row does not exist. */
interface Versions {
  readonly before: number | undefined
  readonly after: number | undefined
}

/** A record is created, updated or deleted. */
interface RecordChange extends Versions {
  readonly type: 'created' | 'updated' | 'deleted'
  readonly resource: Resource
  readonly id: number
  readonly origin: Origin
}

interface Membership {
  /** The limited side of the relation, and the id of its record. */
  readonly resource: Resource
  readonly id: number
  readonly relation: LimitedRelation
  /** The id of the related record. */
  readonly otherId: number
  readonly origin: Origin
}

/** A membership is created or removed. The versions are those of the record of the limited side, which it changes. */
interface MembershipChange extends Membership, Versions {
  readonly type: 'joined' | 'left'
}

/** A membership ends with one of its records. */
export interface EndedMembership extends Membership {
  readonly type: 'ended'
  /** The resource of the record that is deleted. */
  readonly ending: Resource
}

export type Change = RecordChange | MembershipChange | EndedMembership

/** The row that shows whether a transaction was stored. Versions are random, so no other transaction sets the same one. */
export interface Proof extends Versions {
  readonly table: string
  readonly id: number
}

/** Returns a row that the changes prove; undefined if they have changed no version. */
export function proofOf(changes: readonly Change[]): Proof | undefined {
  const last = changes.findLast(change => change.type !== 'ended')
  if (last === undefined) return undefined
  const { resource, id } = last
  // The record can have several changes.
  const first = changes.find(
    change => change.type !== 'ended' && change.resource === resource && change.id === id,
  )
  const before = first === undefined || first.type === 'ended' ? undefined : first.before
  return { table: resource.plural, id, before, after: last.after }
}
