// Splits and changes URLs that can name several hosts: scheme://user:password@a:1,b:2/path

// The hosts follow the last @. A password can contain an @ and a comma, but no slash (RFC 3986, 3.2).
const parts = /^([a-z][a-z+]*:\/\/(?:[^/?#]*@)?)([^/?#]*)(\/[^?#]*)?(.*)$/is

function partsOf(url: string): { start: string; hosts: string; path: string; options: string } {
  const [, start = '', hosts = '', path = '', options = ''] = parts.exec(url) ?? []
  return { start, hosts, path, options }
}

/** Whether each % of a part of a URL begins an escape. */
export function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** Returns one URL for each host, in order. */
export function hostUrls(url: string): string[] {
  const { start, hosts, path, options } = partsOf(url)
  return hosts.split(',').map(host => `${start}${host}${path}${options}`)
}

/** Returns the `host:port` of a URL of one host, for messages. */
export const hostOf = (url: string): string => partsOf(url).hosts

/** Returns the database name in a database URL: mysql://user:password@host:port/database */
export const databaseNameOf = (url: string): string => decodeURIComponent(partsOf(url).path.slice(1))

/** Returns the URL with another database; without one if `name` is empty. */
export function withDatabase(url: string, name: string): string {
  const { start, hosts, options } = partsOf(url)
  return `${start}${hosts}/${encodeURIComponent(name)}${options}`
}
