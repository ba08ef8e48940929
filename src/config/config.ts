// The configuration: read with node-config, checked as a whole, frozen. The one file that reads the environment.
import { basename, resolve } from 'node:path'
import type { z } from 'zod'
import { faultsOf, phrase } from './faults.ts'
import { root } from './root.ts'
import { faultsBetween, portsSchema, type Settings, schema, servingSchema } from './schema.ts'

/** Every setting, checked; paths are absolute. `config/default.json` says what each one is by default. */
export type Config = Settings & { readonly production: boolean }
export type DataPortConfig = Config['ports'][number]

/** The settings are wrong; `faults` names each of them. The process ends with exit code 78 (EX_CONFIG, sysexits.h). */
export class ConfigError extends Error {
  readonly faults: readonly string[]
  constructor(faults: readonly string[]) {
    super(
      `the configuration has ${faults.length === 1 ? 'a fault' : `${faults.length} faults`}: ${faults.join('; ')}`,
    )
    this.name = 'ConfigError'
    this.faults = faults
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part)
    Object.freeze(value)
  }
  return value
}

function check<T extends Settings>(settings: z.ZodType<T>, raw: unknown, production: boolean) {
  const { data, error } = settings.safeParse(raw, { error: phrase })
  const { data: ports } = portsSchema.safeParse(raw)
  const faults = [
    ...(error?.issues.flatMap(faultsOf) ?? []),
    ...(ports === undefined ? [] : faultsBetween(ports, production)),
  ]
  if (data === undefined || faults.length > 0) throw new ConfigError(faults)
  return deepFreeze({ ...data, production })
}

/**
 * Checks raw settings.
 * @throws ConfigError that names every fault at once
 */
export const parseConfig = (raw: unknown, production: boolean): Config => check(schema, raw, production)

/** What node-config would only print, or pass over, and go on with the defaults. */
function checkOverride(text: string | undefined): void {
  if (text === undefined || text === '') return
  let override: unknown
  try {
    override = JSON.parse(text)
  } catch {
    throw new ConfigError(['NODE_CONFIG: is not JSON'])
  }
  if (typeof override !== 'object' || override === null || Array.isArray(override))
    throw new ConfigError(['NODE_CONFIG: must be a JSON object, such as {"workers": 2}'])
}

/** A misspelt `production` would listen on other ports, and be found out late. */
function checkEnvironment(files: readonly string[]): void {
  const { NODE_ENV: environments = '' } = process.env
  const faults = environments
    .split(',')
    .filter(name => name !== '' && name !== 'development' && !files.some(file => file.startsWith(`${name}.`)))
    .map(name => `NODE_ENV: ${name} has no config/${name}.json; there are development, production and test`)
  if (faults.length > 0) throw new ConfigError(faults)
}

/**
 * Reads config/*.json, NODE_CONFIG and the environment, as node-config orders them
 * (https://github.com/node-config/node-config/wiki).
 * @throws ConfigError that names every fault at once
 */
async function load<T extends Settings>(wanted: z.ZodType<T>) {
  checkOverride(process.env.NODE_CONFIG)
  process.env.NODE_CONFIG_DIR ??= resolve(root, 'config')
  // It would only print what is a fault here.
  process.env.SUPPRESS_STRICTNESS_CHECK ??= 'true'
  const { default: settings } = await import('config').catch((error: Error) => {
    throw new ConfigError([error.message])
  })
  checkEnvironment(settings.util.getConfigSources().map(({ name }) => basename(name)))
  return check(wanted, settings.util.toObject(), process.env.NODE_ENV === 'production')
}

/** The configuration, with or without a database. @throws ConfigError that names every fault at once */
export const loadConfig = (): Promise<Config> => load(schema)

/** The configuration of who serves. @throws ConfigError that names every fault at once: no database is one */
export const loadServingConfig = () => load(servingSchema)
