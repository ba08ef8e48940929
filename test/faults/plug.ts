// A private server whose plug can be pulled, and put back.

import { type PrivateServer, runServer } from '../../src/cli/private-servers/server.ts'

export type Plug = Awaited<ReturnType<typeof createPlug>>

/** Starts the server. */
export async function createPlug(server: PrivateServer) {
  let running = await runServer(server)
  return {
    title: server.title,
    url: server.url,
    /** kill -9 */
    pull: () => running.stop('SIGKILL'),
    /** Starts it again; resolves when it answers. */
    async putBack(): Promise<void> {
      running = await runServer(server)
    },
    stop: () => running.stop(),
  }
}
