// A private server that a scenario can kill and start again.
import type { PrivateServer } from '../../src/cli/private-servers/server.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'

export type RestartableServer = Awaited<ReturnType<typeof startRestartableServer>>

/** Starts the server and waits until it responds. */
export async function startRestartableServer(server: PrivateServer) {
  let running = await runServer(server)
  return {
    title: server.title,
    url: server.url,
    /** Kills the server with SIGKILL. */
    kill: () => running.stop('SIGKILL'),
    /** Starts the server again and waits until it responds. */
    async start(): Promise<void> {
      running = await runServer(server)
    },
    stop: () => running.stop(),
  }
}
