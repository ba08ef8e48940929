// Error messages for invalid settings: the setting, its environment variable, and the allowed values.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type * as z from 'zod'
import { root } from './root.ts'

/** The mapping that node-config reads: a tree of settings whose leaves are names of environment variables. */
const variablesFile = resolve(root, 'config/custom-environment-variables.json')

function variableOf(setting: string): string | undefined {
  let entry: unknown = JSON.parse(readFileSync(variablesFile, 'utf8'))
  for (const key of setting.split('.'))
    entry = typeof entry === 'object' && entry !== null ? Reflect.get(entry, key) : undefined
  return typeof entry === 'string' ? entry : undefined
}

const types: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  int: 'an integer',
  number: 'a number',
  object: 'an object',
  string: 'a string',
}

/**
 * Returns the message for an issue to which the schema itself assigns no message.
 * A message never contains the value, which can be a password.
 */
export function messageOf(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined || issue.input === null
        ? 'is missing'
        : `must be ${types[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      return `must be ${issue.values.map(String).join(', ')}`.replace(/, ([^,]*)$/, ' or $1')
    case 'too_small':
      if (issue.origin === 'string' || issue.origin === 'array') return 'must not be empty'
      return `must be at least ${issue.minimum}`
    case 'too_big':
      return `must be at most ${issue.maximum}`
    default:
      return undefined
  }
}

/** Returns the errors of an issue, each with the name of its setting. */
export function faultsOf(issue: z.core.$ZodIssue): string[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map(
      key => `${[...issue.path, key].join('.')}: is not a setting; config/default.json lists all settings`,
    )
  const setting = issue.path.join('.')
  const variable = variableOf(setting)
  return [`${setting}${variable === undefined ? '' : ` (${variable})`}: ${issue.message}`]
}

/**
 * Returns the condition under which Zod runs a check that compares these settings of an object: each of them has its type. By
 * default, it runs no check of an object of which any setting is missing, unknown or of another type.
 */
export const areComparable =
  (...settings: readonly string[]) =>
  ({ issues }: z.core.ParsePayload): boolean =>
    issues.every(
      ({ code, path: [name] = [], continue: hasType }) =>
        hasType === true ||
        (name === undefined ? code === 'unrecognized_keys' : !settings.includes(String(name))),
    )
