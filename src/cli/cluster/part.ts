// A part of the trial cluster: a node, a database, Redis or HAProxy, which can end and start again.
import { createRunner, type PrivateServer, type RunOptions } from '../private-servers/server.ts'

export interface Part {
  /** Unique in the cluster, such as `node1`. */
  readonly name: string
  /** The address for messages. */
  readonly address: string
  /** The process id while the part runs. */
  pid(): number | undefined
  /** Starts the part, which does not run, and waits until it responds. */
  start(): Promise<void>
  /** Ends the part and waits until it has exited. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

/** Describes a part that runs one server. */
export function createPart(name: string, address: string, server: PrivateServer, options: RunOptions): Part {
  const runner = createRunner()
  return { ...runner, name, address, start: () => runner.start(server, options) }
}
