// The URLs at which a service can be reached from this machine.
import type { Config, DataPortConfig } from '../config/config.ts'

/** A host to connect to, for one that is listened on. */
function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}

/** Of the data port: the API begins at its `/v1`. */
export function dataUrl(config: Config, { protocol, port }: DataPortConfig): string {
  return `${protocol}://${reachable(config.host)}:${port}`
}

/** Of the control port that belongs to a data port; its `/` is the status page. */
export function controlUrl(config: Config, { port }: DataPortConfig): string {
  return `http://${reachable(config.control.host)}:${port + config.control.offset}`
}

/** On the port's own control port; any other one answers for it, too. */
export function healthUrl(config: Config, port: DataPortConfig): string {
  return `${controlUrl(config, port)}/healthcheck/${port.label}`
}

/** The URLs of a service, a line each. */
export function describeUrls(config: Config): string {
  const row = (title: string, text: string) => `  ${title.padEnd(14)}${text}`
  const [first] = config.ports
  if (first === undefined) return ''
  return `
${config.ports.map((port, at) => row(at === 0 ? 'API' : '', `${dataUrl(config, port)}/v1/users`)).join('\n')}
${row('its document', `${dataUrl(config, first)}/v1/docs`)}
${row('status page', `${controlUrl(config, first)}/`)}
${config.ports.map((port, at) => row(at === 0 ? 'health checks' : '', healthUrl(config, port))).join('\n')}
`
}
