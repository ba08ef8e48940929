// A part of the trial cluster: a node, a database, Redis or HAProxy, which can end and start again.
import {
  createRunner,
  type PrivateServer,
  type Restartable,
  type RunOptions,
} from '../private-servers/server.ts'

export interface Part extends Restartable {
  /** Unique in the cluster, such as `node1`. */
  readonly name: string
  /** The address for messages. */
  readonly address: string
}

/** Describes a part that runs one server. */
export function createPart(name: string, server: PrivateServer, options: RunOptions): Part {
  const runner = createRunner()
  return { ...runner, name, address: server.url, start: () => runner.start(server, options) }
}
