// The database name in a database URL: mysql://user:password@host:port/database
import { partsOf } from './host-urls.ts'

export const databaseNameOf = (url: string): string => decodeURIComponent(partsOf(url).path.slice(1))

/** Returns the URL with another database; without one if `name` is empty. */
export function withDatabase(url: string, name: string): string {
  const { start, hosts, options } = partsOf(url)
  return `${start}${hosts}/${encodeURIComponent(name)}${options}`
}
