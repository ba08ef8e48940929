// The schemas of request bodies in the OpenAPI document accept the same bodies as the validation of the service, apart from
// texts that no portable pattern can tell.
import { readFileSync } from 'node:fs'
import test from 'ava'
import fc from 'fast-check'
import { capitalize } from '../../../src/api/openapi/json-schema.ts'
import { schemasOf } from '../../../src/api/openapi/schemas.ts'
import { checkBody, checkReference } from '../../../src/api/requests/validation.ts'
import { parseConfig } from '../../../src/config/config.ts'
import { groups } from '../../../src/model/groups.ts'
import { users } from '../../../src/model/users.ts'
import { booksWith } from '../../support/books.ts'
import { checked } from '../../support/faults.ts'
import { createContract } from '../../support/openapi.ts'

const settings = readFileSync(new URL('../../../config/default.json', import.meta.url), 'utf8')
/** A resource with an optional field. */
const books = booksWith(255, false)
const schemas = schemasOf([users, groups, books], parseConfig(JSON.parse(settings), false).limits)
const contract = createContract({
  openapi: '3.1.0',
  servers: [],
  info: { description: '' },
  paths: {},
  components: { schemas, headers: {}, responses: {} },
})
const isValid = (schema: string, body: unknown) =>
  contract.faultsAt(['components', 'schemas', schema], body) === undefined

// Edge cases: control characters, kinds of white space, lone surrogates, and lengths in code points.
const characters = [
  'a',
  '\u{1f600}',
  ' ',
  '\t',
  '\u0085',
  '\u00a0',
  '\u2028',
  '\u3000',
  '\ufeff',
  '\ud800',
  '\0',
  '\n',
]
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom(...characters), maxLength: 4 }),
  fc.constantFrom('a'.repeat(255), 'a'.repeat(256), '\u{1f600}'.repeat(255), '\u{1f600}'.repeat(256)),
)
const value = fc.oneof({ arbitrary: text, weight: 12 }, fc.constantFrom(null, 1, true, [], {}))

/** Returns a body with the field in 1 of 10 cases, and an empty body in the others. */
const rarely = <T>(field: string, values: fc.Arbitrary<T>) =>
  fc.oneof(
    { arbitrary: fc.constant({}), weight: 9 },
    values.map(value => ({ [field]: value })),
  )

/** Bodies with some of these fields, and rarely with a valid or invalid id, with `meta` or with an unknown field. */
const bodiesOf = (fields: readonly string[]) =>
  fc
    .tuple(
      fc.record(Object.fromEntries(fields.map(name => [name, value])), { requiredKeys: [] }),
      rarely('id', fc.constantFrom(7, 0, -1, 1.5, 2 ** 53, '7')),
      rarely('meta', fc.constantFrom({ status: 200 }, 'anything')),
      rarely('colour', fc.constant('red')),
    )
    .map(parts => Object.assign({}, ...parts))

/** Whether the validation rejects a text that the pattern accepts: a lone surrogate, or white space that is not all in Latin-1. */
const isBeyondPattern = (text: unknown): boolean =>
  typeof text === 'string' &&
  !/\p{Cc}/u.test(text) &&
  (!text.isWellFormed() || (/^\p{White_Space}+$/u.test(text) && /[^\0-\xff]/.test(text)))

/** Replaces the texts that only the validation rejects by one that it accepts. */
const withinPattern = (body: object) =>
  Object.fromEntries(Object.entries(body).map(([name, text]) => [name, isBeyondPattern(text) ? 'a' : text]))

const modes = [
  ['create', (type: string) => `New${type}`],
  ['replace', (type: string) => `${type}Replacement`],
  ['patch', (type: string) => `${type}Changes`],
] as const

for (const resource of [users, groups, books])
  for (const [mode, schemaOf] of modes)
    test(`schemas: ${mode} of a ${resource.singular} accepts the same bodies as the validation`, t => {
      const schema = schemaOf(capitalize(resource.singular))
      fc.assert(
        fc.property(bodiesOf(Object.keys(resource.fields)), body => {
          // A schema cannot express that the id must equal the one in the path.
          const { faults } = checked(faults => checkBody(resource, withinPattern(body), mode, faults, 7))
          t.is(isValid(schema, body), faults.length === 0, JSON.stringify([body, faults]))
        }),
        { numRuns: 2000 },
      )
    })

test('schemas: a reference to a group accepts the same bodies as the validation', t => {
  fc.assert(
    fc.property(bodiesOf(['id', 'name']), body => {
      const { faults } = checked(faults => checkReference(groups, body, faults))
      t.is(isValid('GroupReference', body), faults.length === 0, JSON.stringify([body, faults]))
    }),
    { numRuns: 2000 },
  )
})
