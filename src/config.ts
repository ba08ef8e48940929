// The configuration: read with node-config, checked as a whole, frozen. The one file that reads the environment.
import { resolve } from 'node:path'
import { root } from './root.ts'
import { faultsBetween, type Settings, schema } from './settings.ts'

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

/**
 * Checks raw settings.
 * @throws ConfigError that names every fault at once
 */
export function parseConfig(raw: unknown, production: boolean): Config {
  const result = schema.safeParse(raw)
  if (!result.success)
    throw new ConfigError(
      result.error.issues.map(issue => {
        const path = issue.path.join('.')
        return path === '' ? issue.message : `${path}: ${issue.message}`
      }),
    )
  const faults = faultsBetween(result.data, production)
  if (faults.length > 0) throw new ConfigError(faults)
  return deepFreeze({ ...result.data, production })
}

/**
 * Reads config/*.json, NODE_CONFIG and the environment, as node-config orders them
 * (https://github.com/node-config/node-config/wiki).
 * @throws ConfigError that names every fault at once
 */
export async function loadConfig(): Promise<Config> {
  const override = process.env.NODE_CONFIG
  try {
    if (override !== undefined) JSON.parse(override)
  } catch {
    // node-config would only print this and go on with the defaults.
    throw new ConfigError(['NODE_CONFIG: is not JSON'])
  }
  process.env.NODE_CONFIG_DIR ??= resolve(root, 'config')
  const { default: settings } = await import('config').catch((error: Error) => {
    throw new ConfigError([error.message])
  })
  return parseConfig(settings.util.toObject(), process.env.NODE_ENV === 'production')
}
