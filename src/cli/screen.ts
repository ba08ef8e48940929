// What a service that has come up is found at, for people.

import type { Config } from '../config/config.ts'
import { controlUrl, dataUrl, healthUrl } from './urls.ts'

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
