// The desired state of the workers. Maintenance, certificates, TLS ticket keys and the command log-level write to it, before the
// first worker starts and at each change, and workers add the keys of JWT issuers; fleet/fleet.ts sends it to the workers.
import { randomBytes } from 'node:crypto'
import type { LogLevel } from '../config/schema.ts'
import type { DesiredState, IssuerKeys } from '../core/messages.ts'

export type DesiredStateStore = ReturnType<typeof createDesiredState>

/** @param fixed settings that a worker takes from the start of the service, not from the files */
export function createDesiredState(
  logLevel: LogLevel,
  fixed: Pick<DesiredState, 'beatMs' | 'host' | 'hosts'>,
) {
  let state: DesiredState = {
    type: 'desired-state',
    revision: 1,
    ports: {},
    keyPairs: {},
    ticketKeys: randomBytes(48).toString('base64'),
    logLevel,
    ...fixed,
  }

  return {
    current: (): DesiredState => state,
    /** Workers that start later receive the change; the others receive it with the next revision. */
    set(change: Partial<Pick<DesiredState, 'ports' | 'keyPairs' | 'ticketKeys' | 'logLevel'>>): void {
      state = { ...state, ...change }
    },
    /**
     * Keeps the keys that a worker has read at `source`, unless the kept ones are from a later reading. They outlive the
     * worker, so that the last keys stay valid in new workers while the issuer is away.
     * @returns whether the other workers need them
     */
    keepIssuerKeys({ source, keys }: { source: string; keys: IssuerKeys }): boolean {
      const kept = state.issuerKeys?.[source]
      if (kept !== undefined && kept.beganMs >= keys.beganMs) return false
      state = { ...state, issuerKeys: { ...state.issuerKeys, [source]: keys } }
      return kept?.text !== keys.text
    },
    /** Starts a new revision, also without a change: its acknowledgement is a heartbeat sent after this call. */
    nextRevision(): number {
      state = { ...state, revision: state.revision + 1 }
      return state.revision
    },
  }
}
