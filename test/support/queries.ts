// Generated queries over known people, and whom each must give: the model of the contract's section 4.
import fc from 'fast-check'
import { compareCodePoints, escapeFilter, names } from './names.ts'

export interface Person {
  id: number
  first_name: string | undefined
  last_name: string | undefined
  groups: { id: number; name: string }[]
}
type Holds = (person: Person) => boolean
type Field = 'first_name' | 'last_name'

/** A parameter with a value, written with and without `!`, and the people who have it. */
export interface Equality {
  parameter: string
  equal: string
  unequal: string
  holds: Holds
}
interface Filter {
  parameter: string
  value: string
  holds: Holds
}
export interface Query {
  filters: Filter[]
  sort: { key: Field | 'id'; descending: boolean }[]
}

const field = fc.constantFrom<Field>('first_name', 'last_name')
const sorts = fc.uniqueArray(
  fc.record({
    key: fc.constantFrom<Field | 'id'>('first_name', 'last_name', 'id'),
    descending: fc.boolean(),
  }),
  {
    selector: ({ key }) => key,
    maxLength: 3,
  },
)

/** Values that occur among `people`, mixed with others. */
function values(people: Person[], groups: Person['groups']) {
  const known = people.flatMap(({ first_name, last_name }) => [first_name, last_name])
  const otherId = fc.integer({ min: 1, max: 1e9 })
  return {
    name: fc.oneof(names, fc.constantFrom(...known.filter(name => name !== undefined))),
    id: fc.oneof(fc.constantFrom(...people.map(({ id }) => id)), otherId),
    groupName: fc.oneof(names, fc.constantFrom(...groups.map(({ name }) => name))),
    groupId: fc.oneof(fc.constantFrom(...groups.map(({ id }) => id)), otherId),
  }
}

/** Generates the filters that have a complement. */
export function equalitiesOver(people: Person[], groups: Person['groups']): fc.Arbitrary<Equality> {
  const { name, id, groupName, groupId } = values(people, groups)
  const ofName = (parameter: string, value: string, holds: Holds) => ({
    parameter,
    equal: escapeFilter(value),
    unequal: `!${value}`,
    holds,
  })
  const ofId = (parameter: string, value: number, holds: Holds) => ({
    parameter,
    equal: String(value),
    unequal: `!${value}`,
    holds,
  })
  return fc.oneof(
    fc.tuple(field, name).map(([key, value]) => ofName(key, value, person => person[key] === value)),
    id.map(value => ofId('id', value, person => person.id === value)),
    groupName.map(value =>
      ofName('groups[*].name', value, ({ groups }) => groups.some(one => one.name === value)),
    ),
    groupId.map(value => ofId('groups[*].id', value, ({ groups }) => groups.some(one => one.id === value))),
  )
}

/** Generates whole queries: up to three filters and a sort. */
export function queriesOver(people: Person[], groups: Person['groups']): fc.Arbitrary<Query> {
  const { name, id } = values(people, groups)
  const equalities = equalitiesOver(people, groups)
  const filter: fc.Arbitrary<Filter> = fc.oneof(
    equalities.map(({ parameter, equal, holds }) => ({ parameter, value: equal, holds })),
    equalities.map(({ parameter, unequal, holds }) => ({
      parameter,
      value: unequal,
      holds: (person: Person) => !holds(person),
    })),
    fc.tuple(field, name).map(([key, value]) => ({
      parameter: `${key}[prefix]`,
      value,
      holds: (person: Person) => person[key]?.startsWith(value) ?? false,
    })),
    fc.tuple(field, fc.array(name, { minLength: 1, maxLength: 4 })).map(([key, values]) => ({
      parameter: `${key}[in]`,
      value: values.join(','),
      holds: (person: Person) => values.some(value => person[key] === value),
    })),
    fc.tuple(field, fc.boolean()).map(([key, exists]) => ({
      parameter: `${key}[exists]`,
      value: String(exists),
      holds: (person: Person) => (person[key] !== undefined) === exists,
    })),
    id.map(value => ({
      parameter: 'id[gt]',
      value: String(value),
      holds: (person: Person) => person.id > value,
    })),
    id.map(value => ({
      parameter: 'id[lt]',
      value: String(value),
      holds: (person: Person) => person.id < value,
    })),
    fc.array(id, { minLength: 1, maxLength: 5 }).map(ids => ({
      parameter: 'id[in]',
      value: ids.join(','),
      holds: (person: Person) => ids.includes(person.id),
    })),
  )
  return fc.record({ filters: fc.array(filter, { maxLength: 3 }), sort: sorts })
}

function compare(a: string | number | undefined, b: string | number | undefined): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined)
  return typeof a === 'number' ? a - Number(b) : compareCodePoints(a, String(b))
}

/** The ids that `query` must give, in order. */
export const expectedIds = (people: Person[], { filters, sort }: Query): number[] =>
  people
    .filter(person => filters.every(({ holds }) => holds(person)))
    .sort((a, b) => {
      for (const { key, descending } of sort) {
        const order = compare(a[key], b[key])
        if (order !== 0) return descending ? -order : order
      }
      return a.id - b.id
    })
    .map(({ id }) => id)

/** The query as pairs of parameter and value, not yet encoded. */
export function parametersOf({ filters, sort }: Query): [parameter: string, value: string][] {
  const parameters = filters.map(({ parameter, value }): [string, string] => [parameter, value])
  if (sort.length > 0)
    parameters.push(['sort', sort.map(({ key, descending }) => (descending ? '-' : '') + key).join(',')])
  return parameters
}
