// The setting for Redis: the URL of one server, of the nodes of a Redis Cluster, or of the Sentinels of a master.
import * as z from 'zod'
import { hostUrls, isDecodable } from './host-urls.ts'

const schemes = ['redis', 'rediss', 'redis+sentinel', 'rediss+sentinel', 'redis+unix']
const invalidUrl = `must be a URL that starts with ${schemes.map(scheme => `${scheme}://`).join(' or ')}; several hosts are separated by commas: redis://user:password@host:port,host:port`
const sentinelParameters = ['sentinel_username', 'sentinel_password']

/** Splits a URL at its hosts. Each host can also have a scheme of its own: redis://a:1,redis://b:2 */
const splitHosts = (value: string): string[] => value.split(/,(?=[a-z][a-z+]*:\/\/)/i).flatMap(hostUrls)

const hasHost = ({ hostname }: URL) => hostname !== ''
const isServerPath = ({ pathname }: URL) => /^\/?\d*$/.test(pathname)
const isNodePath = ({ pathname }: URL) => /^\/?0?$/.test(pathname)
const isMasterPath = ({ pathname }: URL) => /^\/[^/]+$/.test(pathname) && isDecodable(pathname)
const isSocketPath = ({ pathname, hostname }: URL) =>
  /^\/./.test(pathname) && isDecodable(pathname) && hostname === ''
const hasSentinelParameters = ({ searchParams }: URL) =>
  [...searchParams.keys()].every(key => sentinelParameters.includes(key))

const socketFault = (urls: readonly URL[]): string | undefined =>
  urls.length === 1 && urls.every(isSocketPath)
    ? undefined
    : 'must have the absolute path of one Unix socket, percent-encoded: redis+unix:///path'

function sentinelFault(urls: readonly URL[], scheme: string): string | undefined {
  if (!urls.every(hasHost)) return invalidUrl
  if (!urls.every(isMasterPath))
    return `must end with the name of the master: ${scheme}://user:password@host:port,host:port/master-name`
  if (!urls.every(hasSentinelParameters))
    return `can have only the parameters ${sentinelParameters.join(' and ')}`
  return undefined
}

function clusterFault(urls: readonly URL[]): string | undefined {
  if (!urls.every(hasHost)) return invalidUrl
  if (!urls.every(isNodePath))
    return 'must not have a database number, because a Redis Cluster has only one database'
  return undefined
}

const serverFault = (urls: readonly URL[], scheme: string): string | undefined =>
  urls.every(isServerPath)
    ? undefined
    : `can have only the number of a database as its path: ${scheme}://user:password@host:port/0`

/** Returns what is wrong with the URLs, without their text, which can include a password. */
function faultOf(urls: readonly string[]): string | undefined {
  // What follows it is no part of the user, the password, the host or the path.
  if (urls.some(one => one.includes('#'))) return 'must not contain a #; write it as %23'
  if (!urls.every(one => URL.canParse(one))) return invalidUrl
  const parsed = urls.map(one => new URL(one))
  const used = [...new Set(parsed.map(({ protocol }) => protocol.slice(0, -1)))]
  if (!used.every(scheme => schemes.includes(scheme))) return invalidUrl
  if (used.length > 1) return 'must have the same scheme for all hosts'
  if (!parsed.every(({ username, password }) => isDecodable(username) && isDecodable(password)))
    return 'must have a percent-encoded user and password; write a % as %25'
  const [scheme = ''] = used
  if (scheme.endsWith('+sentinel')) return sentinelFault(parsed, scheme)
  if (parsed.some(({ search }) => search !== ''))
    return 'must not have parameters; for TLS: rediss://user:password@host:port/0'
  if (scheme === 'redis+unix') return socketFault(parsed)
  return parsed.length > 1 ? clusterFault(parsed) : serverFault(parsed, scheme)
}

/** A URL of Redis. It becomes a list with one URL for each host. */
export const redisUrl = z.preprocess(
  value => (typeof value === 'string' ? splitHosts(value) : value),
  z
    .array(z.string(), invalidUrl)
    .min(1)
    .superRefine((urls, context) => {
      const message = faultOf(urls)
      if (message !== undefined) context.addIssue({ code: 'custom', message })
    }),
)
