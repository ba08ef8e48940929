// The URLs at which a service can be reached from this machine.
import type { Config, DataPortConfig } from '../config/config.ts'
import { hostAndPort } from '../core/listen.ts'

/** The host and the port of a URL through which a listening address is reached. */
const reachable = (host: string, port: number): string =>
  hostAndPort({ host: host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host, port })

/** The base URL of a data port; the API begins at its `/v1`. */
export function dataUrl(config: Config, { protocol, port }: DataPortConfig): string {
  return `${protocol}://${reachable(config.host, port)}`
}

/** The base URL of the control port that belongs to a data port; its `/` is the status page. */
function controlUrl(config: Config, { port }: DataPortConfig): string {
  return `http://${reachable(config.control.host, port + config.control.offset)}`
}

/** Returns the first data port that clients reach without a proxy; undefined if all expect the PROXY protocol. */
export const directPort = ({ ports }: Config): DataPortConfig | undefined =>
  ports.find(({ proxyProtocol }) => proxyProtocol !== true)

/** The URLs of a service as text for a terminal, one per line. */
export function describeUrls(config: Config): string {
  const [first] = config.ports
  if (first === undefined) return ''
  const rows = (title: string, urls: readonly string[]) =>
    urls.map((url, at) => `  ${(at === 0 ? title : '').padEnd(14)}${url}`)
  const apis = config.ports.map(port => `${dataUrl(config, port)}/v1/users`)
  const checks = config.ports.map(port => `${controlUrl(config, port)}/healthcheck/${port.label}`)
  const lines = [
    ...rows('API', apis),
    ...rows('API docs', [`${dataUrl(config, first)}/v1/docs`]),
    ...rows('status page', [`${controlUrl(config, first)}/`]),
    ...rows('health checks', checks),
  ]
  return `\n${lines.join('\n')}\n`
}
