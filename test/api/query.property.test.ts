// Generated queries, compared with a model: filters, negation, sorting, paging and encodings.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import { compareCodePoints, names } from '../support/names.ts'
import {
  arbitraryEquality,
  arbitraryGroupFilter,
  arbitraryQuery,
  expectedIds,
  type Filter,
  type Person,
  parametersOf,
  sorts,
} from '../support/queries.ts'

const { service, api, close } = await openApi()
/** Creates about 60 users, some without a name, and their memberships. The data are the same in every run. */
async function populate(): Promise<{ people: Person[]; groups: Person['groups'] }> {
  const shape = fc.record({ first: names, last: names, memberships: fc.nat(127), gaps: fc.nat(9) })
  const groupNames = ['Math', 'math', '!Math', '\\Math', 'Ma%', 'M\u{1f600}', 'M\uffff', 'Empty']
  const made = await api.post('/v1/groups', { groups: groupNames.map(name => ({ name })) })
  const groups = (made.body.groups ?? []).map(({ id, name }) => ({ id: Number(id), name: String(name) }))
  const people: Person[] = []
  for (const [index, { first, last, memberships, gaps }] of fc
    .sample(shape, { seed: 42, numRuns: 60 })
    .entries()) {
    const id = await api.create('/v1/users', { first_name: 'temporary', last_name: String(index) })
    const first_name = gaps < 2 ? undefined : first
    const last_name = gaps === 1 || gaps === 2 ? undefined : last
    if ((await api.put(`/v1/users/${id}`, { first_name, last_name })).status === 409) {
      await api.delete(`/v1/users/${id}`)
      continue
    }
    const joined = groups.filter((_, bit) => (memberships & (1 << bit)) !== 0)
    if (joined.length > 0) await api.post(`/v1/users/${id}/groups`, { groups: joined })
    people.push({ id, first_name, last_name, groups: joined })
  }
  return { people, groups }
}
const { people, groups } = await populate()
test.after.always(close)

const queries = arbitraryQuery(people, groups)

const pathOf = (parameters: [string, string][]) => `/v1/users?${new URLSearchParams(parameters)}`
async function pageAt(path: string) {
  const { status, text, body } = await api.get(path)
  assert.equal(status, 200, `${path}: ${text}`)
  return { ids: (body.users ?? []).map(({ id }) => Number(id)), meta: body.meta }
}

test('query: any filters and sort return the records of the model', async t => {
  const property = fc.asyncProperty(queries, async query => {
    const { ids } = await pageAt(pathOf(parametersOf(query)))
    assert.deepEqual(ids, expectedIds(people, query))
  })
  await fc.assert(property, { numRuns: 500 })
  t.pass()
})

test('query: as many filters of groups as are allowed return the records of the model', async t => {
  const group = fc.constantFrom(...groups)
  const filter = fc.oneof(
    arbitraryGroupFilter(groups),
    group.map(
      ({ id }): Filter => ({
        parameter: 'groups[*].id',
        value: `!${id}`,
        matches: person => person.groups.every(one => one.id !== id),
      }),
    ),
    fc.constant<Filter>({
      parameter: 'groups[*].name[exists]',
      value: 'false',
      matches: person => person.groups.length === 0,
    }),
  )
  const property = fc.asyncProperty(fc.array(filter, { minLength: 4, maxLength: 20 }), async filters => {
    const query = { filters, sort: [] }
    const { ids, meta } = await pageAt(pathOf(parametersOf(query)))
    const wanted = expectedIds(people, query)
    assert.deepEqual(ids, wanted)
    assert.equal(meta.total_records, wanted.length)
  })
  await fc.assert(property, { numRuns: 100 })
  t.pass()
})

test('query: =! returns the exact complement of =', async t => {
  const allIds = people.map(({ id }) => id)
  const property = fc.asyncProperty(
    arbitraryEquality(people, groups),
    async ({ parameter, equal, unequal, matches }) => {
      const equals = await pageAt(pathOf([[parameter, equal]]))
      const others = await pageAt(pathOf([[parameter, unequal]]))
      assert.deepEqual(
        [...equals.ids, ...others.ids].sort((a, b) => a - b),
        allIds,
      )
      assert.deepEqual(
        equals.ids,
        people.filter(matches).map(({ id }) => id),
      )
    },
  )
  await fc.assert(property, { numRuns: 200 })
  t.pass()
})

test('query: the pages of any query contain every matching record exactly once', async t => {
  const property = fc.asyncProperty(queries, fc.integer({ min: 1, max: 30 }), async (query, perPage) => {
    const wanted = expectedIds(people, query)
    const parameters: [string, string][] = [...parametersOf(query), ['records_per_page', String(perPage)]]
    const joined: number[] = []
    let next: string | undefined = pathOf(parameters)
    for (let start = 0; next !== undefined; start += perPage) {
      const page: Awaited<ReturnType<typeof pageAt>> = await pageAt(next)
      assert.deepEqual(page.ids, wanted.slice(start, start + perPage))
      assert.equal(page.meta.total_records, wanted.length)
      assert.equal(page.meta.start_index, start)
      assert.equal(page.meta.records_per_page, perPage)
      assert.equal(page.meta.links?.prev !== undefined, start > 0)
      const again = await pageAt(pathOf([...parameters, ['start_index', String(start)]]))
      assert.deepEqual(again.ids, page.ids)
      joined.push(...page.ids)
      const link = page.meta.links?.next
      next = link && new URL(link, api.url).href.slice(api.url.length)
    }
    assert.deepEqual(joined, wanted)
  })
  await fc.assert(property, { numRuns: 60 })
  t.pass()
})

test('query: a page anywhere in a sorted collection has the records of the model', async t => {
  const start = fc.nat(people.length + 5)
  const size = fc.integer({ min: 1, max: 20 })
  const property = fc.asyncProperty(sorts, start, size, async (sort, startIndex, perPage) => {
    const query = { filters: [], sort }
    const paging: [string, string][] = [
      ['start_index', String(startIndex)],
      ['records_per_page', String(perPage)],
    ]
    const { ids, meta } = await pageAt(pathOf([...parametersOf(query), ...paging]))
    assert.deepEqual(ids, expectedIds(people, query).slice(startIndex, startIndex + perPage))
    assert.equal(meta.total_records, people.length)
  })
  await fc.assert(property, { numRuns: 400 })
  t.pass()
})

test('query: a page anywhere in the sorted groups has the records of the model', async t => {
  const ascending = groups.map(({ name }) => name).sort(compareCodePoints)
  for (const sort of ['name', '-name', 'name,-id', '-name,id']) {
    const sorted = sort.startsWith('-') ? ascending.toReversed() : ascending
    for (let start = 0; start <= groups.length; start++) {
      const { body } = await api.get(`/v1/groups?sort=${sort}&start_index=${start}&records_per_page=3`)
      t.deepEqual(
        body.groups?.map(({ name }) => String(name)),
        sorted.slice(start, start + 3),
        `${sort} from ${start}`,
      )
    }
  }
})

/** Encodes `text` for a query string. `choices` selects the form of each byte. */
function encode(text: string, choices: number[]): string {
  let written = ''
  for (const [index, byte] of Buffer.from(text).entries()) {
    const character = String.fromCharCode(byte)
    const hex = byte.toString(16).padStart(2, '0')
    const choice = choices[index % choices.length]
    if (choice === 0 && /[A-Za-z0-9_.*[\]!,~\\'-]/.test(character)) written += character
    else if (choice === 0 && character === ' ') written += '+'
    else written += `%${choice === 1 ? hex.toUpperCase() : hex}`
  }
  return written
}

test('query: all encodings of a query return the same records', async t => {
  const choices = fc.array(fc.nat(2), { minLength: 1, maxLength: 40 })
  const property = fc.asyncProperty(queries, choices, choices, async (query, forNames, forValues) => {
    const written = parametersOf(query).map(
      ([name, value]) => `${encode(name, forNames)}=${encode(value, forValues)}`,
    )
    const wanted = expectedIds(people, query)
    assert.deepEqual((await pageAt(`/v1/users?${written.join('&')}`)).ids, wanted)
    assert.deepEqual((await pageAt(`/v1/users?${written.toReversed().join('&')}`)).ids, wanted)
  })
  await fc.assert(property, { numRuns: 200 })
  t.pass()
})

const fragments = [
  'first_name last_name id groups name sort include start_index records_per_page meta',
  '[*] [in] [gt] [prefix] [exists] [ ] . = = = = & & ! \\ , - + \' " ; -- /* ` ? ?? :a',
  '% %00 %0A %FF %E2%82%AC %5B %5D %26 0 1 007 9007199254740993 1e9 true null',
  '__proto__ constructor toString hasOwnProperty',
].flatMap(line => line.split(' '))

test('query: no query string causes a server error', async t => {
  const workers = await service.workers()
  const query = fc.oneof(
    fc.array(fc.constantFrom(...fragments), { maxLength: 12 }).map(parts => parts.join('')),
    fc.string({ maxLength: 60 }).map(text => encodeURI(text)),
    fc.webQueryParameters(),
  )
  const user = `/v1/users/${people[0]?.id}`
  const paths = fc.constantFrom('/v1/users', '/v1/groups', user, `${user}/groups`)
  const property = fc.asyncProperty(paths, query, async (path, text) => {
    const answer = await api.get(`${path}?${text}`)
    assert.ok(answer.status === 200 || answer.status === 400, answer.text)
    assert.equal(answer.body.meta.status, answer.status)
  })
  await fc.assert(property, { numRuns: 1500 })
  t.deepEqual(await service.workers(), workers)
})
