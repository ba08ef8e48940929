// Versions of the service with different representations share a Redis and clients.
import test from 'ava'
import { Redis } from 'ioredis'
import { openApi } from '../support/api-suite.ts'
import { expectOk } from '../support/expect.ts'
import { createOperator } from '../support/operator.ts'
import { until } from '../support/until.ts'

// A reply of Redis that is late counts as a miss, whose value would be written later.
const { service, api, close } = await openApi({ config: { cache: { timeoutMs: 60_000 } } })
test.after.always(close)

let sequence = 0

/** Creates a user that is in one group. */
async function createMember() {
  const name = `${++sequence}`
  const user = await api.create('/v1/users', { first_name: 'Cached', last_name: name })
  const group = await api.create('/v1/groups', { name })
  await api.post(`/v1/users/${user}/groups`, { id: group })
  return { user, path: `/v1/users/${user}`, groups: [{ id: group, name }] }
}

const url = process.env.TEST_REDIS_URL
if (url !== undefined) {
  const redis = new Redis({ path: decodeURIComponent(new URL(url).pathname) })
  test.after.always(() => redis.disconnect())

  test('cached values: a value of another key, one that is no list of records, and a large one is a miss and is replaced', async t => {
    // The first value is written only if Redis is connected when it is read.
    await createOperator(service).until(status => status.redis === 'connected')
    const { user, path, groups } = await createMember()
    const read = async () => (await api.get(`${path}?include=groups`)).body.groups
    t.deepEqual(await read(), groups)
    const version = String((await api.get(path)).headers.etag)
      .slice(1)
      .split('.')[0]
    /** The write to the cache happens in the background. */
    const cachedUnder = () =>
      until(async () => {
        const [key] = await redis.keys(`users-api:*:user:${user}:groups:${version}:*`)
        const isCached =
          key !== undefined && (await redis.get(key))?.endsWith(JSON.stringify(groups)) === true
        return isCached && key
      })
    const key = await cachedUnder()
    t.regex(key, /^users-api:\d+:[\w-]{8}:user:/)
    const texts = [
      '',
      'null',
      '{}',
      '[1]',
      '[[]]',
      '[{"name":"without an id"}]',
      `[${'{"id":1},'.repeat(8000)}{"id":1}]`,
      `${key}${JSON.stringify(groups)}`,
      JSON.stringify(groups).slice(0, -1),
    ]
    // The last one is the value of another key.
    for (const stored of [...texts.map(text => key + text), `${key.slice(0, -1)}![]`]) {
      await redis.set(key, stored)
      t.deepEqual(await read(), groups, stored)
      t.is(await cachedUnder(), key)
    }
  })
}

test('cached values: an ETag of another representation is no 304, but its version is good for If-Match', async t => {
  const { path } = await createMember()
  for (const read of [path, `${path}?include=groups`, `${path}/groups`]) {
    const answer = await api.get(read)
    const tag = String(answer.headers.etag).slice(1, -1)
    t.regex(tag, /^\d+(\.\d+)?\.\d+:[\w-]{8}$/)
    const version = tag.split('.')[0]
    const others = [tag.slice(0, tag.lastIndexOf('.')), `${tag.slice(0, -1)}~`, `${version}`]
    for (const other of others) {
      const again = await api.get(read, { 'if-none-match': `"${other}"` })
      expectOk(t, again)
      t.is(again.text, answer.text)
      expectOk(t, await api.patch(path, {}, { 'if-match': `"${other}"` }))
    }
    t.is((await api.get(read, { 'if-none-match': `"${tag}"` })).status, 304)
  }
})
