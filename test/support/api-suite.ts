// The common opening of an API test suite: a running service with its clients, and the hook that closes them.
import type { ExecutionContext } from 'ava'
import { type Client, createClient } from './http.ts'
import { type ServiceOptions, startService } from './service.ts'

export type ApiSuite = Awaited<ReturnType<typeof openApi>>

/**
 * Starts a service and a client for all tests of a file. The file must register `close` with
 * `test.after.always` after its last top-level `await`: AVA starts soon after the first hook is declared.
 * @throws Error if the service does not start
 */
export async function openApi(options?: ServiceOptions) {
  const service = await startService(options)
  const clients: Client[] = []
  /** Creates another client with its own connections. */
  const openClient = (url = service.url): Client => {
    const client = createClient(url)
    clients.push(client)
    return client
  }
  return {
    service,
    api: openClient(),
    openClient,
    /** Closes all clients, stops the service and asserts that its exit code is 0. */
    async close(t: ExecutionContext): Promise<void> {
      for (const client of clients) client.close()
      t.is(await service.stop(), 0)
    },
  }
}
