// What a transaction has changed. What it stores beside its rows is derived from that (`derived-rows.ts`), and so is whether it was
// stored after a lost COMMIT (`lost-commit.ts`).
import type { Relation, Resource } from '../model/resource.ts'

/** The request that causes a change. */
export interface Origin {
  /** The name of the caller; null if the API is open. */
  readonly by: string | null
  readonly requestId: string
}

/** The versions of a row before and after a change; undefined: the row does not exist. */
export interface Versions {
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
  readonly relation: Relation
  /** The id of the related record. */
  readonly otherId: number
  readonly origin: Origin
}

/** A membership is created or removed. The versions are those of the record of the limited side, which it changes. */
interface MembershipChange extends Membership, Versions {
  readonly type: 'joined' | 'left'
}

/** A membership ends with one of its records. */
interface EndedMembership extends Membership {
  readonly type: 'ended'
  /** The resource of the record that is deleted. */
  readonly ending: Resource
}

export type Change = RecordChange | MembershipChange | EndedMembership
