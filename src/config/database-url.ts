// The setting for the database: a URL with one host, or with several of which one accepts writes.
import * as z from 'zod'
import { hostOf, hostUrls, isDecodable } from './host-urls.ts'

/** A host of a list must not be empty. A URL with a Unix socket has no host. */
const isHostUrl = (value: string, _: number, all: readonly string[]) =>
  URL.canParse(value) && (all.length === 1 || hostOf(value) !== '')

const isDecodableUrl = (value: string) =>
  hostUrls(value).every(one => {
    const { username, password, pathname } = new URL(one)
    return [username, password, pathname].every(isDecodable)
  })

/**
 * The driver takes any other text as the name of a profile, which its error message repeats: the text can hold a key. With `false`,
 * it does not use TLS.
 */
function isTlsSetting(text: string): boolean {
  if (text === 'Amazon RDS') return true
  try {
    const settings: unknown = JSON.parse(text)
    return settings === false || (typeof settings === 'object' && settings !== null)
  } catch {
    return false
  }
}

const parameters = ['ssl', 'socketPath']

/** The driver ignores what it does not know, such as ssl-mode, and connects without TLS. Others change its results. */
const hasKnownParameters = (value: string) =>
  hostUrls(value).every(one => [...new URL(one).searchParams.keys()].every(key => parameters.includes(key)))

const hasTlsSettings = (value: string) =>
  hostUrls(value).every(one => new URL(one).searchParams.getAll('ssl').every(isTlsSetting))

/** A URL of MySQL or MariaDB, with one host or several. */
export const databaseUrl = z
  .string()
  // What follows it is no part of the password or the database name.
  .refine(value => !value.includes('#'), { error: 'must not contain a #; write it as %23', abort: true })
  .refine(value => /^mysql:/i.test(value) && hostUrls(value).every(isHostUrl), {
    error:
      'must be a URL that starts with mysql://; several hosts are separated by commas: mysql://user:password@host:port,host:port/database',
    abort: true,
  })
  .refine(isDecodableUrl, 'must have a percent-encoded user, password and database name; write a % as %25')
  .refine(
    hasKnownParameters,
    `can have only the parameters ${parameters.join(' and ')}; for TLS: ssl={"verifyIdentity":true}`,
  )
  .refine(
    hasTlsSettings,
    'must have a JSON object as its parameter ssl, if it has one: ssl={"rejectUnauthorized":true}',
  )
  .refine(
    value => hostUrls(value).every(one => /^\/[^/]+$/.test(new URL(one).pathname)),
    'must include the database name: mysql://user:password@host:port/database',
  )
