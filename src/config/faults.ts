// Says what is wrong with a setting: which one it is, in which variable it may stand, and what it has to be.
import type { z } from 'zod'

/** As config/custom-environment-variables.json has them. */
const variables: Readonly<Record<string, string>> = {
  'database.url': 'DATABASE_URL',
  'cache.url': 'REDIS_URL',
  workers: 'WORKERS',
  'log.level': 'LOG_LEVEL',
}

const types: Readonly<Record<string, string>> = {
  array: 'a list',
  boolean: 'true or false',
  int: 'an integer',
  number: 'a number',
  object: 'an object',
  string: 'a string',
}

/** What is wrong, where the schema has no words of its own for it. Never the value: it may be a password. */
export function phrase(issue: z.core.$ZodRawIssue): string | undefined {
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

/** The faults that an issue stands for, each with its setting's name. */
export function faultsOf(issue: z.core.$ZodIssue): string[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map(
      key => `${[...issue.path, key].join('.')}: is no setting, config/default.json has them all`,
    )
  const path = issue.path.join('.')
  // A URL of several is said of all.
  const setting = path.replace(/^cache\.url\.\d+$/, 'cache.url')
  const variable = variables[setting]
  return [`${setting}${variable === undefined ? '' : ` (${variable})`}: ${issue.message}`]
}
