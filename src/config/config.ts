// Loads the configuration with node-config and validates it. Outside this folder, no code reads the environment.
import { basename, delimiter, resolve } from 'node:path'
import type * as z from 'zod'
import { faultsOf, messageOf } from './faults.ts'
import { root } from './root.ts'
import { portFaults, portsSchema, type Settings, schema, servingSchema, socketSchema } from './schema.ts'

/** All settings, validated, with absolute paths. `config/default.json` contains the defaults. */
export type Config = Settings & { readonly production: boolean }
export type DataPortConfig = Config['ports'][number]

/** Invalid settings; `faults` lists every error. The process exits with code 78 (EX_CONFIG, sysexits.h). */
export class ConfigError extends Error {
  readonly faults: readonly string[]
  constructor(faults: readonly string[]) {
    const count = faults.length === 1 ? '' : ` (${faults.length} errors)`
    super(`invalid settings${count}: ${faults.join('; ')}`)
    this.name = 'ConfigError'
    this.faults = faults
  }
}

function check<T extends Settings>(
  settings: z.ZodType<T>,
  raw: unknown,
  production: boolean,
  needsCertificates = production,
) {
  const { data, error } = settings.safeParse(raw, { error: messageOf })
  const { data: ports } = portsSchema.safeParse(raw)
  const faults = [
    ...(error?.issues.flatMap(faultsOf) ?? []),
    ...(ports === undefined ? [] : portFaults(ports, needsCertificates)),
  ]
  if (data === undefined || faults.length > 0) throw new ConfigError(faults)
  return { ...data, production }
}

/**
 * Validates raw settings.
 * @throws ConfigError that lists every error
 */
export const parseConfig = (raw: unknown, production: boolean): Config => check(schema, raw, production)

/** Rejects settings that are not an object. node-config would ignore them. */
function checkObject(source: string, settings: unknown): void {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    throw new ConfigError([`${source}: must be a JSON object, such as {"workers": 2}`])
}

/** Rejects an invalid NODE_CONFIG. node-config would ignore it and continue with the defaults. */
function checkOverride(text: string | undefined): void {
  if (text === undefined || text === '') return
  let override: unknown
  try {
    override = JSON.parse(text)
  } catch {
    throw new ConfigError(['NODE_CONFIG: must be valid JSON'])
  }
  checkObject('NODE_CONFIG', override)
}

/** The variable with the environments of this process. node-config prefers the first one. */
const environmentVariable = () => (process.env.NODE_CONFIG_ENV ? 'NODE_CONFIG_ENV' : 'NODE_ENV')

/** The environments of this process, such as `production,eu`: node-config reads a file for each of them. */
const environments = (): string[] => (process.env[environmentVariable()] ?? '').split(',')

/** Rejects an unknown environment. A misspelt `production` would make the service listen on the wrong ports. */
function checkEnvironment(files: readonly string[]): void {
  const faults = environments()
    .filter(name => name !== '' && name !== 'development' && !files.some(file => file.startsWith(`${name}.`)))
    .map(
      name =>
        `${environmentVariable()}: config/${name}.json does not exist; use development, production or test`,
    )
  if (faults.length > 0) throw new ConfigError(faults)
}

/**
 * Reads config/*.json, NODE_CONFIG and the environment variables in node-config's order of precedence
 * (https://github.com/node-config/node-config/wiki).
 * @throws ConfigError of the first source that is invalid
 */
async function read(): Promise<unknown> {
  checkOverride(process.env.NODE_CONFIG)
  // Workers have another working directory than the supervisor.
  process.env.NODE_CONFIG_DIR = (process.env.NODE_CONFIG_DIR ?? resolve(root, 'config'))
    .split(delimiter)
    .map(folder => resolve(folder))
    .join(delimiter)
  // node-config would only print a warning. checkEnvironment reports an error instead.
  process.env.SUPPRESS_STRICTNESS_CHECK ??= 'true'
  const { default: settings } = await import('config').catch((error: Error) => {
    throw new ConfigError([error.message])
  })
  const sources = settings.util.getConfigSources()
  checkEnvironment(sources.map(({ name }) => basename(name)))
  for (const { name, parsed } of sources) checkObject(name, parsed)
  return settings.util.toObject()
}

async function load<T extends Settings>(settingsSchema: z.ZodType<T>, needsCertificates?: boolean) {
  const raw = await read()
  return check(settingsSchema, raw, environments().includes('production'), needsCertificates)
}

/**
 * Returns the token that commands send to the API; undefined if there is none.
 * @throws ConfigError if it cannot be sent; the message does not contain it
 */
export function apiToken(): string | undefined {
  const { USERS_API_TOKEN: token = '' } = process.env
  if (!/^[!-~]*$/.test(token))
    throw new ConfigError(['USERS_API_TOKEN: must contain only visible ASCII characters'])
  return token === '' ? undefined : token
}

/** Loads the configuration; the database URL is optional. @throws ConfigError that lists every error */
export const loadConfig = (): Promise<Config> => load(schema)

/** Loads the configuration for a command that uses only the database. Certificates may be missing. @throws ConfigError */
export const loadDatabaseConfig = (): Promise<Config> => load(schema, false)

/** Loads the configuration of a serving process. @throws ConfigError, also if the database URL is missing */
export const loadServingConfig = () => load(servingSchema)

/**
 * Loads the path of the control socket for a command of an operator, which must not fail because another setting has become
 * invalid. @throws ConfigError
 */
export async function loadControlSocket(): Promise<string> {
  const { data, error } = socketSchema.safeParse(await read(), { error: messageOf })
  if (data === undefined) throw new ConfigError(error.issues.flatMap(faultsOf))
  return data.control.socket
}
