// The address of a client as the log of a service shows it.
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { Service } from './service.ts'

/**
 * Sends a request with headers that claim another address, and returns the address in the log.
 * @param agent must have the protocol of `url`; by default, the request comes from 127.0.0.2 on a connection of its own
 */
export async function loggedClient(
  service: Service,
  url: string,
  agent?: http.Agent,
): Promise<string | undefined> {
  const headers = { 'X-Forwarded-For': '198.51.100.1', Forwarded: 'for=198.51.100.1' }
  const { get } = url.startsWith('https:') ? https : http
  const connection = agent === undefined ? { agent: false, localAddress: '127.0.0.2' } : { agent }
  const request = get(`${url}/v1/users`, { ...connection, headers, rejectUnauthorized: false })
  const [response]: IncomingMessage[] = await once(request, 'response')
  const id = response?.resume().headers['request-id']
  return JSON.parse(await service.logLine(new RegExp(`"requestId":"${id}"`))).client
}
