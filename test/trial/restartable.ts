// The servers of a trial: child processes that can end and start again.
import {
  type PrivateServer,
  type RunOptions,
  runServer,
  type ServerOptions,
} from '../../src/cli/private-servers/server.ts'

/** What a cluster of servers on this machine needs. */
export interface ClusterOptions extends Pick<ServerOptions, 'print'> {
  /** The folder for the files of all servers. A previous cluster in it is deleted. */
  readonly base: string
  /** Number of servers. A cluster of fewer than three does not survive the loss of one. */
  readonly count: number
  /** The first of consecutive ports on 127.0.0.1: three for each database, two for each Redis. */
  readonly firstPort: number
}

/** A child process that can end and start again. */
export interface Restartable {
  /** The process id while it runs. */
  pid(): number | undefined
  /** Resolves when it has exited; at once if it does not run. */
  exited(): Promise<unknown>
  /** Starts it and waits until it responds. It must not run. @throws as `runServer` */
  start(): Promise<void>
  /** Ends it, if it runs, and waits until it has exited. */
  stop(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

/** A server of a cluster. `start` waits until it has joined the cluster. */
export interface ClusterServer extends Restartable {
  /** Names this server alone. That of a database has an empty database name, and a user with all privileges. */
  readonly url: string
}

/** Creates a server that does not run yet. @param describe is called for each start */
export function createRestartable(
  describe: () => PrivateServer | Promise<PrivateServer>,
  options?: RunOptions,
): Restartable {
  let running: Awaited<ReturnType<typeof runServer>> | undefined
  return {
    pid: () => running?.pid(),
    exited: async () => running?.exited,
    async start() {
      running = await runServer(await describe(), options)
    },
    async stop(signal) {
      await running?.stop(signal)
    },
  }
}
