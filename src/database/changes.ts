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
interface EndedMembership extends Membership {
  readonly type: 'ended'
  /** The resource of the record that is deleted. */
  readonly ending: Resource
}

export type Change = RecordChange | MembershipChange | EndedMembership

/** A row that shows whether a transaction was stored. Versions are random, so no other transaction sets the same one. */
export interface Proof extends Versions {
  readonly table: string
  readonly id: number
}

/** Returns the rows whose versions the changes have changed, each once. */
export function proofsOf(changes: readonly Change[]): Proof[] {
  const proofs = new Map<string, Proof>()
  for (const change of changes) {
    if (change.type === 'ended') continue
    const { id, after } = change
    const table = change.resource.plural
    const { before } = proofs.get(`${table} ${id}`) ?? change
    proofs.set(`${table} ${id}`, { table, id, before, after })
  }
  return [...proofs.values()]
}

/**
 * Returns whether a transaction was stored; undefined if the rows do not tell.
 * @param versionOf returns the version that a row has now; undefined if it does not exist
 */
export function isStored(
  proofs: readonly Proof[],
  versionOf: (proof: Proof) => number | undefined,
): boolean | undefined {
  const absent = new Set<boolean | undefined>()
  for (const proof of proofs) {
    const version = versionOf(proof)
    const stored = version === proof.after ? true : version === proof.before ? false : undefined
    // A row that exists is a proof. One that does not may have been deleted by another transaction.
    if (version !== undefined && stored !== undefined) return stored
    absent.add(stored)
  }
  const [stored] = absent
  return absent.size === 1 ? stored : undefined
}
