// A part of the trial cluster: a node, a database, Redis or HAProxy.
import type { Restartable } from '../private-servers/server.ts'

export interface Part extends Restartable {
  /** Unique in the cluster, such as `node1`. */
  readonly name: string
  /** The address for messages. */
  readonly address: string
}
