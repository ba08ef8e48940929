// The search of collections, compared with a model in its own words, and with a table of characters.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults } from '../support/expect.ts'

const { api, close } = await openApi()

interface Name {
  readonly first_name: string
  readonly last_name: string
}
interface Person extends Name {
  readonly id: number
}

/** Creates users in batches. Users with equal names are left out. */
async function createAll(names: readonly Name[]): Promise<Person[]> {
  const people: Person[] = []
  for (let at = 0; at < names.length; at += 1000) {
    const users = names.slice(at, at + 1000)
    const { body } = await api.post('/v1/users', { users })
    for (const { id, first_name, last_name } of body.users ?? [])
      if (id !== undefined)
        people.push({ id: Number(id), first_name: String(first_name), last_name: String(last_name) })
  }
  return people
}

async function search(path: string, words: string, others: Record<string, string> = {}) {
  const { status, text, body } = await api.get(`${path}?${new URLSearchParams({ search: words, ...others })}`)
  assert.equal(status, 200, `${words}: ${text}`)
  return { ids: (body.users ?? body.groups ?? []).map(({ id }) => Number(id)), meta: body.meta }
}

/** Characters of several scripts, each with its form that is compared: two with the same form are equal in a search. */
const alphabet: readonly (readonly [character: string, compared: string])[] = [
  ...['aaáàäåĀA', 'eéÉêE', 'oøÖo', 'nñN', 'sSš', 'lłL'].flatMap(letters =>
    Array.from(letters, letter => [letter, letters.charAt(0)] as const),
  ),
  ['ß', 'ss'],
  ['æ', 'ae'],
  ['a\u0301', 'a'],
  ['ı', 'ı'],
  ['İ', 'i'],
  ['i', 'i'],
  ['σ', 'σ'],
  ['ς', 'σ'],
  ['Σ', 'σ'],
  ['ά', 'α'],
  ['α', 'α'],
  ['ж', 'ж'],
  ['Ж', 'ж'],
  ['и', 'и'],
  ['й', 'й'],
  ['李', '李'],
  ['王', '王'],
  ['김', '김'],
  ['박', '박'],
  ['か', 'か'],
  ['カ', 'か'],
  ['😀', '😀'],
  ['😁', '😁'],
  ['-', '-'],
  ['%', '%'],
  ['_', '_'],
  ["'", "'"],
  ['\\', '\\'],
  [' ', ' '],
]
const comparedForms = new Map(alphabet)
const units = alphabet.map(([character]) => character)
const compared = (text: string): string =>
  Array.from(text.replaceAll('a\u0301', 'a'), character => comparedForms.get(character) ?? character).join('')

/** Whether the words can be cut into runs, each of which begins one of the texts. The words and texts are in their compared form. */
function matches(texts: readonly string[], words: readonly string[]): boolean {
  if (words.length === 0) return true
  return words.some((_, at) => {
    const run = words.slice(0, at + 1).join(' ')
    return texts.some(text => text.startsWith(run)) && matches(texts, words.slice(at + 1))
  })
}

const name = fc
  .string({ unit: fc.constantFrom(...units), minLength: 1, maxLength: 6 })
  .filter(text => text.trim() !== '')
const names = fc.record({ first_name: name, last_name: name })
const MINUTE_MS = 60_000
/** TEST_SEARCHES sets the number of names and of searches. */
const searches = Number(process.env.TEST_SEARCHES ?? 0)
const people = await createAll(fc.sample(names, { seed: 7, numRuns: Math.max(3000, searches) }))
const texts = people.map(({ first_name, last_name }) => [compared(first_name), compared(last_name)])
const group = await api.create('/v1/groups', { name: 'Searched' })
const members = people.filter((_, index) => index % 7 === 0)
for (let at = 0; at < members.length; at += 1000)
  await api.post(`/v1/groups/${group}/users`, {
    users: members.slice(at, at + 1000).map(({ id }) => ({ id })),
  })
test.after.always(close)

/** The beginnings of one or both names of a person, in any order, or random text. */
const queries = fc.oneof(
  {
    weight: 5,
    arbitrary: fc
      .tuple(fc.constantFrom(...people), fc.nat(6), fc.nat(6), fc.boolean())
      .map(([{ first_name, last_name }, first, last, turned]) => {
        const parts = [Array.from(first_name).slice(0, first), Array.from(last_name).slice(0, last)]
        return (turned ? parts.toReversed() : parts).map(part => part.join('')).join(' ')
      }),
  },
  { weight: 1, arbitrary: fc.string({ unit: fc.constantFrom(...units), minLength: 1, maxLength: 4 }) },
)

const wordsOf = (query: string): string[] =>
  compared(query)
    .split(' ')
    .filter(word => word !== '')

test.serial('search: returns the records of the model, with exact totals, and those of a group', async t => {
  t.timeout(5 * MINUTE_MS + 100 * searches)
  const memberIds = new Set(members.map(({ id }) => id))
  const property = fc.asyncProperty(
    queries.filter(query => wordsOf(query).length > 0 && wordsOf(query).length <= 5),
    async query => {
      const words = wordsOf(query)
      const expected = people.filter((_, index) => matches(texts[index] ?? [], words)).map(({ id }) => id)
      const all = await search('/v1/users', query, { records_per_page: '1000' })
      assert.deepEqual(all.ids, expected.slice(0, 1000), query)
      assert.equal(all.meta.total_records, expected.length)
      const ofGroup = await search(`/v1/groups/${group}/users`, query, { records_per_page: '1000' })
      assert.deepEqual(
        ofGroup.ids,
        expected.filter(id => memberIds.has(id)),
      )
    },
  )
  await fc.assert(property, { numRuns: Math.max(150, searches) })
  t.pass()
})

test.serial('search: combines with filters, sort, paging and include', async t => {
  const expected = people.filter((_, index) => matches(texts[index] ?? [], ['a']))
  const sorted = expected.toSorted((one, other) => other.id - one.id).map(({ id }) => id)
  const page = await search('/v1/users', 'A', { sort: '-id', start_index: '2', records_per_page: '3' })
  t.deepEqual(page.ids, sorted.slice(2, 5))
  t.is(page.meta.total_records, expected.length)
  const past = await search('/v1/users', 'A', { start_index: String(expected.length) })
  t.deepEqual([past.ids, past.meta.total_records], [[], expected.length])
  const [one] = expected
  const filtered = await search('/v1/users', 'A', { first_name: one?.first_name ?? '', sort: 'last_name' })
  const same = expected.filter(({ first_name }) => first_name === one?.first_name)
  t.deepEqual(new Set(filtered.ids), new Set(same.map(({ id }) => id)))
  const related = await search('/v1/users', 'A', { 'groups[*].name': '!Searched', records_per_page: '1000' })
  const memberIds = new Set(members.map(({ id }) => id))
  const outside = expected.filter(({ id }) => !memberIds.has(id)).map(({ id }) => id)
  t.deepEqual(related.ids, outside.slice(0, 1000))
  t.is(related.meta.total_records, outside.length)
  const included = await api.get('/v1/users?search=a&include=groups&sort=first_name&records_per_page=5')
  for (const { id, groups } of included.body.users ?? [])
    t.is(groups?.length, memberIds.has(Number(id)) ? 1 : 0)
})

const cases: readonly (readonly [first: string, last: string, found: string[], notFound: string[]])[] = [
  [
    'Émile',
    'Durkheim',
    ['EMI', 'émile d', 'durk', 'Dürkheim emile'],
    ['mile', 'emile emile durkheim x', 'durkheim x'],
  ],
  ['Anna', 'van der Berg', ['van', 'van der b', 'anna van der', 'VAN DER BERG ANNA'], ['berg', 'der berg']],
  ['Ludwig', 'van Beethoven', ['ludwig van beet', 'van beet lud', 'lud van'], ['beethoven', 'van der']],
  ['Jürgen', 'Straße', ['strasse', 'STRASS', 'straß', 'jurgen'], ['jue', 'straze']],
  ['Søren', 'Ærø', ['soren', 'aero', 'ær'], ['sören k', 'ero']],
  ['Işık', 'İnan', ['isı', 'ISı', 'inan'], ['isi']],
  ['Ὀδυσσεύς', 'Ελύτης', ['οδυσσευσ', 'ΕΛΥ'], ['λυ']],
  ['Антон', 'Чехов', ['антон чех', 'ЧЕХОВ'], ['хов']],
  ['李', '小龍', ['李', '小', '李 小龍'], ['龍']],
  ['민준', '김', ['김', '김 민'], ['준']],
  ['เกศ', 'ใจดี', ['เก', 'เกศ', 'ใจ', 'ใจดี เกศ'], ['กศ']],
  ['Zoe\u0301', 'e\u0301e', ['zoé', 'ZOE EE'], ['oe']],
  ['😀 Smile', '100%_\\', ['😀 s', '100%', '100%_\\'], ['😁', '%', '_']],
]

test.serial(
  'search: letters are compared without case and accents, every other character literally',
  async t => {
    for (const [first_name, last_name, found, notFound] of cases) {
      const id = await api.create('/v1/users', { first_name: `${first_name}`, last_name })
      for (const query of found)
        t.true((await search('/v1/users', query, { 'id[gt]': String(id - 1) })).ids.includes(id), query)
      for (const query of notFound)
        t.false((await search('/v1/users', query, { 'id[gt]': String(id - 1) })).ids.includes(id), query)
    }
  },
)

test.serial('search: groups are found by the beginning of their name', async t => {
  const id = await api.create('/v1/groups', { name: 'Équipe de nuit' })
  t.deepEqual((await search('/v1/groups', 'equipe DE')).ids, [id])
  t.deepEqual((await search('/v1/groups', 'equipe equ')).ids, [id])
  t.deepEqual((await search('/v1/groups', 'nuit')).ids, [])
})

test.serial(
  'search: a missing name matches nothing, and a renamed record is found by its new name',
  async t => {
    const id = await api.create('/v1/users', { first_name: 'Quondam', last_name: 'Quux' })
    await api.put(`/v1/users/${id}`, { first_name: 'Öther' })
    t.deepEqual((await search('/v1/users', 'quondam')).ids, [])
    t.deepEqual((await search('/v1/users', 'OTHER')).ids, [id])
    await api.put(`/v1/users/${id}`, { last_name: 'Mononym' })
    const alone = await search('/v1/users', 'mono')
    t.deepEqual(alone.ids, [id])
    t.is(alone.meta.total_records, 1)
  },
)

test.serial(
  'search: white space alone is no search, and every kind of white space separates words',
  async t => {
    const all = await api.get('/v1/users?records_per_page=1')
    const blank = await api.get('/v1/users?search=%20%E2%80%83&records_per_page=1')
    t.is(blank.body.meta.total_records, all.body.meta.total_records)
    const id = await api.create('/v1/users', { first_name: 'Wide', last_name: 'Space' })
    t.deepEqual((await search('/v1/users', ' \u2003wide\u00a0\u3000space ')).ids, [id])
  },
)

test.serial('search: a word of ignored characters only finds nothing', async t => {
  for (const word of ['\u00ad', '\u200d', '\u0301', '\ufe0f'])
    t.deepEqual((await search('/v1/users', word)).ids, [], word)
})

test.serial('search: a control character finds nothing, because no name contains one', async t => {
  await api.create('/v1/users', { first_name: 'Literal', last_name: 'Character' })
  t.is((await search('/v1/users', 'lit char')).ids.length, 1)
  for (const words of ['\u0000', '\u0007', 'lit\u0000', 'lit char\u0007', 'lit \u0000'])
    t.like(await search('/v1/users', words), { ids: [], meta: { total_records: 0 } }, JSON.stringify(words))
})

test.serial('search: more than five words, a repetition, and other paths are refused', async t => {
  const many = await api.get('/v1/users?search=a+b+c+d+e+f')
  expectError(t, many, 400, 'limit_exceeded')
  expectFaults(t, many, { search: 'limit_exceeded' })
  t.is((await api.get('/v1/users?search=a+b+c+d+e')).status, 200)
  expectError(t, await api.get('/v1/users?search=a&search=b'), 400, 'invalid_parameter')
  const [one] = people
  expectError(t, await api.get(`/v1/users/${one?.id}?search=a`), 400, 'unknown_parameter')
  expectError(t, await api.get(`/v1/users/${one?.id}/groups?search=a`), 400, 'unknown_parameter')
})
