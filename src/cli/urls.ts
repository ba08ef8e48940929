// Where the ports that are listened on can be reached from this machine.
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
