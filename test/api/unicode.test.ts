// Unicode names: which names are valid, that they are stored as sent, and that different names are never
// equal.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'

const { api, close } = await openApi()
test.after.always(close)

/** Pairwise different names that some collations treat as equal. */
const lookAlikes = [
  'Jose|jose|JOSE|José|Jose\u0301|Jose | Jose|Jose  |Jose\u00a0|Jose\u3000|Jo\u00adse',
  'ß|ss|ẞ|SS|æ|ae|Æ|œ|oe|ø|o|ö|o\u0308|ð|d|þ|th|ł|l|I|i|İ|ı|i\u0307|Σ|σ|ς',
  '\u00c5|\u212b|A\u030a|K|\u212a|\u03a9|\u2126|\u{1d400}|A|ﬁ|fi|Ⅷ|VIII|１|1|①|¹|١|१|क्|क',
  'か|カ|ｶ|が|か\u3099|가|\u1100\u1161|徐俊杰|徐俊傑|O’Brien|O\u0027Brien|a\u2028b|ab',
  '\u{1f600}|\u{1f601}|👩\u200d💻|👩💻|🇩🇪|x|x\u200b|x\u200d|x\ufeff|x\ufe0f',
  '\ufffd|\uffff|\ue000|\u{10ffff}',
].flatMap(line => line.split('|'))

test.serial('unicode: user names that differ in one code point are different', async t => {
  t.is(new Set(lookAlikes).size, lookAlikes.length)
  const users = lookAlikes.map(last_name => ({ first_name: 'Same', last_name }))
  const made = await api.post('/v1/users', { users })
  t.deepEqual(
    made.body.users?.map(user => [user.meta.code, user.last_name]),
    lookAlikes.map(name => [undefined, name]),
  )
  const again = await api.post('/v1/users', { users })
  t.true(again.body.users?.every(({ meta }) => meta.code === 'user_exists'))
  for (const [index, last_name] of lookAlikes.entries()) {
    const found = await api.get(
      `/v1/users?${new URLSearchParams({ last_name: last_name.replace(/^[!\\]/, '\\$&') })}`,
    )
    t.deepEqual(
      found.body.users?.map(({ id }) => id),
      [made.body.users?.[index]?.id],
      JSON.stringify(last_name),
    )
    t.is(found.body.users?.[0]?.last_name, last_name)
    t.is(
      await api.count(`/v1/users?${new URLSearchParams({ last_name: `!${last_name}` })}`),
      lookAlikes.length - 1,
    )
  }
  const all = await api.get(`/v1/users?${new URLSearchParams({ 'last_name[in]': lookAlikes.join(',') })}`)
  t.is(all.body.meta.total_records, lookAlikes.length)
})

test.serial('unicode: group names that differ in one code point are different', async t => {
  const made = await api.post('/v1/groups', { groups: lookAlikes.map(name => ({ name })) })
  t.is(
    made.body.meta.created,
    lookAlikes.length,
    JSON.stringify(made.body.groups?.find(({ meta }) => meta.status !== 200)),
  )
  const user = await api.create('/v1/users', { first_name: 'Member', last_name: 'Of all' })
  const ids = made.body.groups?.map(({ id }) => ({ id }))
  await api.post(`/v1/users/${user}/groups`, { groups: ids?.slice(1) })
  const { groups } = (await api.get(`/v1/users/${user}?include=groups`)).body
  t.deepEqual(
    groups?.map(({ name }) => name),
    lookAlikes.slice(1),
  )
  for (const [index, name] of lookAlikes.entries())
    t.is(await api.count(`/v1/users?${new URLSearchParams({ 'groups[*].name': name })}`), index === 0 ? 0 : 1)
})

test.serial('unicode: prefix filters compare by code point', async t => {
  const rows: [prefix: string, expected: string[]][] = [
    ['Jose', lookAlikes.filter(name => name.startsWith('Jose'))],
    ['Jose ', ['Jose ', 'Jose  ']],
    ['か', ['か', 'か\u3099']],
    ['👩', ['👩\u200d💻', '👩💻']],
    ['i', ['i', 'i\u0307']],
    // The next code point is that of a surrogate, or there is none.
    ['\ud7ff', []],
    ['\u{10ffff}', ['\u{10ffff}']],
  ]
  for (const [prefix, expected] of rows) {
    const { users } = (await api.get(`/v1/users?${new URLSearchParams({ 'last_name[prefix]': prefix })}`))
      .body
    t.deepEqual(
      users?.map(({ last_name }) => last_name),
      expected,
    )
  }
})

test('unicode: a name of 255 four-byte code points is valid, one of 256 is not', async t => {
  const character = '\u{1f984}'
  const name = character.repeat(255)
  const rows: [path: string, field: string, body: object][] = [
    ['/v1/users', 'first_name', { first_name: name, last_name: name }],
    ['/v1/groups', 'name', { name }],
  ]
  for (const [path, field, body] of rows) {
    const answer = await api.post(path, body)
    expectOk(t, answer)
    const { id, meta, ...fields } = (await api.get(`${path}/${answer.body.id}`)).body
    t.deepEqual(fields, body)
    for (const length of [1, 200, 255]) {
      const query = new URLSearchParams({ [`${field}[prefix]`]: character.repeat(length) })
      t.is(await api.count(`${path}?${query}`), 1)
    }
    expectError(
      t,
      await api.post(path, { ...body, [field]: `${name}x` }),
      400,
      'invalid_field',
      'limit_exceeded',
    )
  }
})

test('unicode: names of 255 code points that differ only in the last one are different', async t => {
  const base = '\u{1f98a}'.repeat(254)
  const users = ['\u{1f984}', '\u{1f985}', 'a', 'A', ''].map(end => ({
    first_name: base,
    last_name: base + end,
  }))
  const answer = await api.post('/v1/users', { users })
  t.is(answer.body.meta.created, users.length, JSON.stringify(answer.body.meta))
})

const character = (code: number) => String.fromCodePoint(code)
const controls = [0x00, 0x01, 0x08, 0x09, 0x0a, 0x0d, 0x1b, 0x1f, 0x7f, 0x80, 0x85, 0x9f].map(character)
test('unicode: control characters (Cc) are rejected anywhere in a name', async t => {
  for (const control of controls)
    for (const first_name of [control, `a${control}b`, `a${control}`, `${control}a`]) {
      const answer = await api.post('/v1/users', { first_name, last_name: 'x' })
      expectError(t, answer, 400, 'invalid_field')
      expectFaults(t, answer, { first_name: 'invalid_field' })
    }
})

const spaces = [0x20, 0xa0, 0x1680, 0x2000, 0x2003, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000].map(
  character,
)
test('unicode: names of white space (White_Space) only are rejected, white space around a letter is kept', async t => {
  for (const first_name of [...spaces, spaces.join('')])
    expectError(t, await api.post('/v1/users', { first_name, last_name: 'x' }), 400, 'invalid_field')
  for (const space of spaces) {
    const answer = await api.post('/v1/users', { first_name: `${space}a${space}`, last_name: 'spaced' })
    expectOk(t, answer)
    t.is(answer.body.first_name, `${space}a${space}`)
  }
})

test('unicode: invisible characters other than control characters and white space are valid names', async t => {
  for (const first_name of [
    '\ufeff',
    '\u200b',
    '\u180e',
    '\u2060',
    '\u00ad',
    '\u200e',
    '\u{e0001}',
    '\u0301',
  ]) {
    const answer = await api.post('/v1/users', { first_name, last_name: 'invisible' })
    expectOk(t, answer)
    t.is((await api.get(`/v1/users/${answer.body.id}`)).body.first_name, first_name)
  }
})

test('unicode: lone surrogates are rejected, surrogate pairs are valid', async t => {
  for (const escaped of ['\\ud800', 'a\\udc00', '\\udc00\\ud800', '\\ud83d\\ud83d\\ude00', '\\udbff x'])
    for (const [method, path, body] of [
      ['post', '/v1/users', `{"first_name":"${escaped}","last_name":"x"}`],
      ['post', '/v1/groups', `{"name":"${escaped}"}`],
    ] as const)
      expectError(t, await api[method](path, body), 400, 'invalid_field')
  const answer = await api.post('/v1/users', '{"first_name":"\\ud83d\\ude00","last_name":"\\u0041"}')
  expectOk(t, answer)
  t.is(answer.body.first_name, '😀')
  t.is(answer.body.last_name, 'A')
})

test('unicode: batch entries follow the same rules', async t => {
  const names = ['\u0000', '\u3000', '\ud800', '\ufeff', '😀'.repeat(256)]
  const answer = await api.post('/v1/groups', { groups: names.map(name => ({ name: `${name}` })) })
  t.deepEqual(
    answer.body.groups?.map(({ meta }) => meta.status),
    [400, 400, 400, 200, 400],
  )
})
