// The collection of users: filters, operators, sorting, paging, links and includes, tested with one fixed set
// of users.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectOk } from '../support/expect.ts'
import type { Answer } from '../support/http.ts'

// All tests run at once: on a busy machine, the sorted pages wait for each other longer than requests may by default.
const { api, close } = await openApi({ config: { database: { acquireTimeoutMs: 60_000 } } })
// The tests refer to each user by its letter; `_` stands for a missing name.
const people: [letter: string, first: string, last: string, groups: string[]][] = [
  ['a', 'Ada', 'Lovelace', ['Math', 'Poetry']],
  ['b', 'Grace', 'Hopper', ['Navy']],
  ['c', 'Ada', '_', ['Math']],
  ['d', '_', 'Hopper', []],
  ['e', '_', '_', ['Navy', 'Math', '!Math']],
  ['f', '!Ada', 'a+b c', []],
  ['g', '\\Ada', '100%', ['!Math']],
  ['h', '\\!Ada', 'x,y', ['Poetry']],
  ['i', 'ada', 'Zoë', []],
  ['j', 'Adam', 'Smith&Co=1', ['Navy', 'Poetry']],
]
const groupIds = new Map<string, number>()
for (const name of ['Math', 'Navy', 'Poetry', '!Math', 'Empty'])
  groupIds.set(name, await api.create('/v1/groups', { name }))
const ids = new Map<string, number>()
for (const [letter, first, last, groups] of people) {
  const id = await api.create('/v1/users', { first_name: 'temporary', last_name: letter })
  const fields = { first_name: first === '_' ? null : first, last_name: last === '_' ? null : last }
  await api.put(`/v1/users/${id}`, fields)
  for (const group of groups) await api.post(`/v1/users/${id}/groups`, { id: groupIds.get(group) })
  ids.set(letter, id)
}
test.after.always(close)

const letters = new Map([...ids].map(([letter, id]) => [id, letter]))
const allLetters = 'abcdefghij'
const lettersOf = (answer: Answer) => answer.body.users?.map(({ id }) => letters.get(Number(id))).join('')
const id = (letter: string) => ids.get(letter)

/** Each query and the letters of the users that it returns, in order. */
const rows: [query: string, expected: string][] = [
  ['', allLetters],
  ['first_name=Ada', 'ac'],
  ['first_name=ada', 'i'],
  ['last_name=Hopper', 'bd'],
  ['last_name=Hopper+', ''],
  ['last_name=Zoe', ''],
  ['last_name=Zo%C3%AB', 'i'],
  // `!` returns the complement, which includes users without the field.
  ['first_name=!Ada', 'bdefghij'],
  ['last_name=!Hopper', 'acefghij'],
  ['first_name=', ''],
  ['first_name=!', allLetters],
  // A backslash escapes only a leading ! or \, and nothing after a negating `!`.
  ['first_name=\\!Ada', 'f'],
  ['first_name=\\\\Ada', 'g'],
  ['first_name=\\Ada', 'g'],
  ['first_name=\\\\!Ada', 'h'],
  ['first_name=!!Ada', 'abcdeghij'],
  ['first_name=!\\Ada', 'abcdefhij'],
  ['first_name=!\\!Ada', 'abcdefgij'],
  // Form encoding: `+` and `%20` are both a space.
  ['last_name=a%2Bb+c', 'f'],
  ['last_name=a%2Bb%20c', 'f'],
  ['last_name=a+b+c', ''],
  ['last_name=100%25', 'g'],
  ['last_name=Smith%26Co=1', 'j'],
  ['last_name=Smith%26Co%3D1', 'j'],
  // Filters combine with AND, even if a parameter is repeated.
  ['first_name=Ada&last_name=Lovelace', 'a'],
  ['first_name=Ada&first_name=Grace', ''],
  ['first_name=!Ada&first_name=!Grace', 'defghij'],
  // Only a repeated list is one list.
  ['first_name[in]=Ada&first_name[in]=Grace', 'abc'],
  ['first_name[in]=Ada&first_name%5Bin%5D=Grace,Adam&last_name[exists]=true', 'abj'],
  [`id[in]=${id('e')}&id[in]=${id('b')}`, 'be'],
  [`groups[*].id[in]=${groupIds.get('Navy')}&groups[*].id[in]=${groupIds.get('Math')}`, 'abcej'],
  ['first_name=Ada&last_name=!Lovelace', 'c'],
  // Values of operators are literal: `!` and `\` have no special meaning.
  ['first_name[prefix]=Ada', 'acj'],
  ['first_name[prefix]=!', 'f'],
  ['first_name[prefix]=\\', 'gh'],
  ['first_name[prefix]=%25', ''],
  ['first_name[prefix]=_', ''],
  ['last_name[prefix]=100%25', 'g'],
  ['last_name[prefix]=1_0', ''],
  ['first_name[in]=Ada,Grace', 'abc'],
  ['first_name[in]=!Ada', 'f'],
  ['first_name[in]=\\!Ada,Adam', 'hj'],
  ['last_name[in]=x,y', ''],
  ['first_name[exists]=true', 'abcfghij'],
  ['first_name[exists]=false', 'de'],
  ['last_name[exists]=false', 'ce'],
  ['first_name[exists]=false&last_name[exists]=true', 'd'],
  [`id=${id('c')}`, 'c'],
  [`id=!${id('c')}`, 'abdefghij'],
  [`id[gt]=${id('g')}`, 'hij'],
  [`id[lt]=${id('c')}`, 'ab'],
  [`id[gt]=${id('b')}&id[lt]=${id('e')}`, 'cd'],
  [`id[in]=${id('e')},${id('b')},${Number.MAX_SAFE_INTEGER}`, 'be'],
  [`id=${Number.MAX_SAFE_INTEGER}`, ''],
  // Filters on related records: the complement consists of the users in no matching group.
  ['groups[*].name=Math', 'ace'],
  ['groups[*].name=!Math', 'bdfghij'],
  ['groups[*].name=\\!Math', 'eg'],
  ['groups[*].name=!!Math', 'abcdfhij'],
  ['groups[*].name=Empty', ''],
  ['groups[*].name=!Empty', allLetters],
  ['groups[*].name=math', ''],
  ['groups[*].name=Navy&groups[*].name=Poetry', 'j'],
  ['groups[*].name=Navy&groups[*].name=!Poetry', 'be'],
  ['groups[*].name=!Navy&groups[*].name=!Math', 'dfghi'],
  [`groups[*].id=${groupIds.get('Navy')}`, 'bej'],
  [`groups[*].id=!${groupIds.get('Navy')}`, 'acdfghi'],
  [`groups[*].id=${Number.MAX_SAFE_INTEGER}`, ''],
  ['groups[*].name=Math&first_name=Ada&last_name[exists]=true', 'a'],
  // All encodings of `[*]` are equivalent.
  ['groups%5B*%5D.name=Math', 'ace'],
  ['groups%5b%2a%5d%2ename=Math', 'ace'],
  ['%67roups[%2A].%6Eame=!Math', 'bdfghij'],
  ['first_name%5Bprefix%5D=Ada', 'acj'],
  // Sorting is by code point. Missing values come first in ascending order and last in descending order.
  // Ties are always broken by ascending id.
  ['sort=first_name', 'defacjbhgi'],
  ['sort=-first_name', 'ighbjacfde'],
  ['sort=last_name', 'cegbdajifh'],
  ['sort=first_name,-last_name', 'defacjbhgi'],
  ['sort=id', allLetters],
  ['sort=-id', 'jihgfedcba'],
  ['sort=first_name,-id', 'edfcajbhgi'],
  ['sort=-id&first_name=Ada', 'ca'],
  ['sort=-last_name&groups[*].name=Math', 'ace'],
  // Pages.
  ['records_per_page=3', 'abc'],
  ['start_index=3&records_per_page=3', 'def'],
  ['start_index=9&records_per_page=3', 'j'],
  ['start_index=10', ''],
  ['start_index=8', 'ij'],
  ['start_index=9007199254740991', ''],
  ['records_per_page=1000', allLetters],
  ['first_name=Ada&start_index=1&records_per_page=1', 'c'],
  ['include=', allLetters],
  ['include=groups&start_index=4&records_per_page=1', 'e'],
]
for (const [query, expected] of rows)
  test(`collections: GET /v1/users?${query} returns ${expected || 'no users'}`, async t => {
    const answer = await api.get(`/v1/users?${query}`)
    expectOk(t, answer)
    t.is(lettersOf(answer), expected)
  })

test('collections: every record has its fields and meta, and the collection has its counts', async t => {
  const answer = await api.get('/v1/users?first_name=Ada&records_per_page=1')
  expectOk(t, answer)
  t.deepEqual(Object.keys(answer.body).sort(), ['meta', 'users'])
  const [{ meta: recordMeta, ...ada } = { meta: { status: 0 } }] = answer.body.users ?? []
  t.deepEqual(ada, { id: id('a'), first_name: 'Ada', last_name: 'Lovelace' })
  t.is(recordMeta.status, 200)
  const { meta } = answer.body
  t.is(meta.total_records, 2)
  t.is(meta.start_index, 0)
  t.is(meta.records_per_page, 1)
  t.truthy(meta.message)
})

test('collections: total_records counts all matching records on every page', async t => {
  for (const page of ['', '&records_per_page=2', '&start_index=2&records_per_page=2', '&start_index=99'])
    for (const [query, total] of [
      ['', 10],
      ['first_name=!Ada', 8],
      ['groups[*].name=Math', 3],
      ['groups[*].name=!Math', 7],
    ])
      t.is(
        (await api.get(`/v1/users?${query}${page}`)).body.meta.total_records,
        Number(total),
        `${query}${page}`,
      )
})

test('collections: start_index defaults to 0 and records_per_page to 100', async t => {
  const { meta } = (await api.get('/v1/users')).body
  t.is(meta.start_index, 0)
  t.is(meta.records_per_page, 100)
})

test('collections: missing fields are omitted, not null', async t => {
  const [user] = (await api.get(`/v1/users?id=${id('e')}`)).body.users ?? []
  t.deepEqual(Object.keys(user ?? {}).sort(), ['id', 'meta'])
  t.notRegex((await api.get('/v1/users?include=groups')).text, /null/)
})

test('collections: include=groups embeds all groups of each user, sorted by id, without meta', async t => {
  const answer = await api.get('/v1/users?include=groups&groups[*].name=Poetry')
  expectOk(t, answer)
  t.is(lettersOf(answer), 'ahj')
  const wanted = (names: string[]) => names.map(name => ({ id: groupIds.get(name), name }))
  t.deepEqual(
    answer.body.users?.map(({ groups }) => groups),
    [wanted(['Math', 'Poetry']), wanted(['Poetry']), wanted(['Navy', 'Poetry'])],
  )
  const all = (await api.get('/v1/users?include=groups')).body.users ?? []
  t.deepEqual(all.find(user => user.id === id('d'))?.groups, [])
  t.deepEqual(all.find(user => user.id === id('e'))?.groups, wanted(['Math', 'Navy', '!Math']))
  for (const user of all) {
    const { meta, ...one } = (await api.get(`/v1/users/${user.id}?include=groups`)).body
    t.deepEqual({ ...one, meta: user.meta }, user)
  }
  for (const path of [
    '/v1/users',
    '/v1/users?include=',
    `/v1/users/${id('a')}`,
    `/v1/users/${id('a')}?include=`,
  ])
    t.false((await api.get(path)).text.includes('"groups"'), path)
})

test('collections: links lead through all pages in both directions and keep filters and sort', async t => {
  const query = 'sort=-first_name&last_name=!x%2Cy&records_per_page=2&include=groups'
  const pages: (string | undefined)[] = []
  let path = `/v1/users?${query}`
  let answer = await api.get(path)
  t.is(answer.body.meta.links?.prev, undefined)
  for (;;) {
    expectOk(t, answer)
    pages.push(lettersOf(answer))
    t.true(answer.body.users?.every(({ groups }) => groups !== undefined))
    const next = answer.body.meta.links?.next
    if (next === undefined) break
    path = new URL(next, api.url).href.slice(api.url.length)
    answer = await api.get(path)
  }
  t.deepEqual(pages, ['ig', 'bj', 'ac', 'fd', 'e'])
  for (const expected of pages.slice(0, -1).reverse()) {
    const previous = new URL(answer.body.meta.links?.prev ?? '', api.url)
    answer = await api.get(previous.href.slice(api.url.length))
    t.is(lettersOf(answer), expected)
  }
  t.is(answer.body.meta.links?.prev, undefined)
})

test('collections: links are URIs, whatever characters the request contains', async t => {
  const query = 'id[gt]=0&last_name=!a\\b|{"}^`&groups[*].name=!x&records_per_page=2'
  const answer = await api.get(`/v1/users?${query}`)
  t.is(
    answer.body.meta.links?.next,
    '/v1/users?id%5Bgt%5D=0&last_name=!a%5Cb%7C%7B%22%7D%5E%60&groups%5B*%5D.name=!x&start_index=2&records_per_page=2',
  )
  t.is(
    (await api.get(answer.body.meta.links?.next ?? '')).body.meta.total_records,
    answer.body.meta.total_records,
  )
})

test('collections: a single page has no links, and the last page has no next link', async t => {
  for (const query of ['', 'records_per_page=10', 'start_index=5&records_per_page=5', 'first_name=none'])
    t.is((await api.get(`/v1/users?${query}`)).body.meta.links?.next, undefined, query)
  t.is((await api.get('/v1/users')).body.meta.links?.prev, undefined)
  t.truthy((await api.get('/v1/users?records_per_page=9')).body.meta.links?.next)
  const { links } = (await api.get('/v1/users?start_index=1&records_per_page=2')).body.meta
  const back = await api.get(new URL(links?.prev ?? '', api.url).href.slice(api.url.length))
  t.is(lettersOf(back)?.[0], 'a')
})

test('collections: a page past the end is empty, has no next link, and leads back to the last records', async t => {
  const answer = await api.get('/v1/users?start_index=50&records_per_page=3')
  expectOk(t, answer)
  t.deepEqual(answer.body.users, [])
  t.is(answer.body.meta.links?.next, undefined)
  const back = await api.get(new URL(answer.body.meta.links?.prev ?? '', api.url).href.slice(api.url.length))
  const last = await api.get(`/v1/users?start_index=${back.body.meta.total_records ?? 0}&records_per_page=3`)
  t.is(back.body.users?.length, 3)
  t.is(back.body.meta.links?.next, undefined)
  t.is(last.body.meta.links?.prev, answer.body.meta.links?.prev)
})
