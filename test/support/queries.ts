// Generated queries over known users, and a model that computes the expected result of each.
import fc from 'fast-check'
import { compareCodePoints, names } from './names.ts'

export interface Person {
  id: number
  first_name: string | undefined
  last_name: string | undefined
  groups: { id: number; name: string }[]
}
type Predicate = (person: Person) => boolean
type Field = 'first_name' | 'last_name'

/** A filter and its negation with `!`, and the predicate of the filter. */
export interface Equality {
  parameter: string
  equal: string
  unequal: string
  matches: Predicate
}
export interface Filter {
  parameter: string
  value: string
  matches: Predicate
}
export interface Query {
  filters: Filter[]
  sort: { key: Field | 'id'; descending: boolean }[]
}

const field = fc.constantFrom<Field>('first_name', 'last_name')
/** Generates the sort keys of a query, which can be none. */
export const sorts = fc.uniqueArray(
  fc.record({
    key: fc.constantFrom<Field | 'id'>('first_name', 'last_name', 'id'),
    descending: fc.boolean(),
  }),
  {
    selector: ({ key }) => key,
    maxLength: 3,
  },
)

/** Generates values that occur in the data, mixed with others. */
function arbitraryValues(people: Person[], groups: Person['groups']) {
  const known = people.flatMap(({ first_name, last_name }) => [first_name, last_name])
  const otherId = fc.integer({ min: 1, max: 1e9 })
  return {
    name: fc.oneof(names, fc.constantFrom(...known.filter(name => name !== undefined))),
    id: fc.oneof(fc.constantFrom(...people.map(({ id }) => id)), otherId),
    groupName: fc.oneof(names, fc.constantFrom(...groups.map(({ name }) => name))),
    groupId: fc.oneof(fc.constantFrom(...groups.map(({ id }) => id)), otherId),
  }
}

/** Generates equality filters, which are the filters with a negation. */
export function arbitraryEquality(people: Person[], groups: Person['groups']): fc.Arbitrary<Equality> {
  const { name, id, groupName, groupId } = arbitraryValues(people, groups)
  const nameFilter = (parameter: string, value: string, matches: Predicate) => ({
    parameter,
    // A leading ! or \ is escaped.
    equal: value.replace(/^[!\\]/, '\\$&'),
    unequal: `!${value}`,
    matches,
  })
  const idFilter = (parameter: string, value: number, matches: Predicate) => ({
    parameter,
    equal: String(value),
    unequal: `!${value}`,
    matches,
  })
  return fc.oneof(
    fc.tuple(field, name).map(([key, value]) => nameFilter(key, value, person => person[key] === value)),
    id.map(value => idFilter('id', value, person => person.id === value)),
    groupName.map(value =>
      nameFilter('groups[*].name', value, ({ groups }) => groups.some(one => one.name === value)),
    ),
    groupId.map(value =>
      idFilter('groups[*].id', value, ({ groups }) => groups.some(one => one.id === value)),
    ),
  )
}

/** Generates filters that several groups of a user can match. */
export function arbitraryGroupFilter(groups: Person['groups']): fc.Arbitrary<Filter> {
  type Group = Person['groups'][number]
  const some = (operation: string, value: string | number, matches: (group: Group) => boolean): Filter => ({
    parameter: `groups[*].${operation}`,
    value: String(value),
    matches: person => person.groups.some(matches),
  })
  const group = fc.constantFrom(...groups)
  return fc.oneof(
    fc
      .constantFrom('M', 'm', 'Ma')
      .map(start => some('name[prefix]', start, ({ name }) => name.startsWith(start))),
    group.map(({ id }) => some('id[gt]', id, one => one.id > id)),
    group.map(({ id }) => some('id[lt]', id, one => one.id < id)),
    fc.array(group, { minLength: 1, maxLength: 3 }).map(listed => {
      const ids = listed.map(({ id }) => id)
      return some('id[in]', ids.join(','), one => ids.includes(one.id))
    }),
    fc.constant(some('name[exists]', 'true', () => true)),
  )
}

/** Generates queries with up to three filters and a sort. */
export function arbitraryQuery(people: Person[], groups: Person['groups']): fc.Arbitrary<Query> {
  const { name, id } = arbitraryValues(people, groups)
  const equalities = arbitraryEquality(people, groups)
  const filter: fc.Arbitrary<Filter> = fc.oneof(
    equalities.map(({ parameter, equal, matches }) => ({ parameter, value: equal, matches })),
    equalities.map(({ parameter, unequal, matches }) => ({
      parameter,
      value: unequal,
      matches: (person: Person) => !matches(person),
    })),
    fc.tuple(field, name).map(([key, value]) => ({
      parameter: `${key}[prefix]`,
      value,
      matches: (person: Person) => person[key]?.startsWith(value) ?? false,
    })),
    fc.tuple(field, fc.array(name, { minLength: 1, maxLength: 4 })).map(([key, values]) => ({
      parameter: `${key}[in]`,
      value: values.join(','),
      matches: (person: Person) => values.some(value => person[key] === value),
    })),
    fc.tuple(field, fc.boolean()).map(([key, exists]) => ({
      parameter: `${key}[exists]`,
      value: String(exists),
      matches: (person: Person) => (person[key] !== undefined) === exists,
    })),
    id.map(value => ({
      parameter: 'id[gt]',
      value: String(value),
      matches: (person: Person) => person.id > value,
    })),
    id.map(value => ({
      parameter: 'id[lt]',
      value: String(value),
      matches: (person: Person) => person.id < value,
    })),
    fc.array(id, { minLength: 1, maxLength: 5 }).map(ids => ({
      parameter: 'id[in]',
      value: ids.join(','),
      matches: (person: Person) => ids.includes(person.id),
    })),
    arbitraryGroupFilter(groups),
  )
  return fc.record({ filters: fc.array(filter, { maxLength: 3 }), sort: sorts })
}

function compare(a: string | number | undefined, b: string | number | undefined): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined)
  return typeof a === 'number' ? a - Number(b) : compareCodePoints(a, String(b))
}

/** All filters must match; of those with the same `[in]`, one. */
const matchesAll = (person: Person, filters: readonly Filter[]): boolean =>
  filters.every(({ parameter, matches }) =>
    parameter.endsWith('[in]')
      ? filters.some(other => other.parameter === parameter && other.matches(person))
      : matches(person),
  )

/** Returns the ids that the service must return for `query`, in order. */
export const expectedIds = (people: Person[], { filters, sort }: Query): number[] =>
  people
    .filter(person => matchesAll(person, filters))
    .sort((a, b) => {
      for (const { key, descending } of sort) {
        const order = compare(a[key], b[key])
        if (order !== 0) return descending ? -order : order
      }
      return a.id - b.id
    })
    .map(({ id }) => id)

/** Returns the query as pairs of parameter and value, not yet encoded. */
export function parametersOf({ filters, sort }: Query): [parameter: string, value: string][] {
  const parameters = filters.map(({ parameter, value }): [string, string] => [parameter, value])
  if (sort.length > 0)
    parameters.push(['sort', sort.map(({ key, descending }) => (descending ? '-' : '') + key).join(',')])
  return parameters
}
