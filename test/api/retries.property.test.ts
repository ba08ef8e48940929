// Generated retries, compared with models: which response a key replays, and which ETag is current.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import type { Answer } from '../support/http.ts'
import { pick } from '../support/pick.ts'

const { openClient, close } = await openApi({ workers: 2 })
const clients = Array.from({ length: 4 }, () => openClient())
test.after.always(close)

let runs = 0

test.serial(
  'retries: a key replays the response of its first request, whatever requests are sent in between',
  async t => {
    const post = fc.record({
      key: fc.option(fc.nat(3)),
      name: fc.nat(2),
      batch: fc.boolean(),
      client: fc.nat(),
      removed: fc.boolean(),
    })
    const property = fc.asyncProperty(fc.array(post, { maxLength: 25 }), async posts => {
      const run = `Run-${++runs}`
      const saved = new Map<number, { body: string; answer: Answer }>()
      const paths = new Map<number, string>()
      for (const { key, name, batch, client, removed } of posts) {
        const api = pick(clients, client)
        const pair = { first_name: String(name), last_name: run }
        const body = JSON.stringify(batch ? { users: [pair] } : pair)
        const headers = key === null ? {} : { 'idempotency-key': `${run}/${key}` }
        const answer = await api.post('/v1/users', body, headers)
        const before = key === null ? undefined : saved.get(key)
        assert.equal(answer.headers['idempotent-replayed'], before?.body === body ? 'true' : undefined)
        if (before?.body === body) assert.equal(answer.text, before.answer.text)
        else if (before !== undefined) assert.equal(answer.body.meta.code, 'idempotency_key_reused')
        else {
          const { meta, id, users = [] } = answer.body
          if (batch) assert.equal(meta.created, paths.has(name) ? 0 : 1, answer.text)
          else assert.equal(meta.code, paths.has(name) ? 'user_exists' : undefined, answer.text)
          if (!paths.has(name)) paths.set(name, `/v1/users/${id ?? users[0]?.id}`)
          if (key !== null) saved.set(key, { body, answer })
        }
        assert.equal(await api.count(`/v1/users?last_name=${encodeURIComponent(run)}`), paths.size)
        const path = paths.get(name)
        if (removed && path !== undefined && paths.delete(name)) await api.delete(path)
      }
    })
    await fc.assert(property, { numRuns: 60, endOnFailure: true })
    t.pass()
  },
)

test.serial('retries: a write succeeds only with the ETag of the current version', async t => {
  const group = await pick(clients, 0).create('/v1/groups', { name: 'Retries' })
  const write = fc.record({
    kind: fc.constantFrom('put', 'patch', 'join', 'leave', 'nothing'),
    /** Few values, so that some writes store what is there. */
    first_name: fc.constantFrom('Version', 'Other'),
    /** The age of the ETag, in versions. */
    age: fc.oneof(fc.constant(0), fc.nat(3)),
    include: fc.boolean(),
    client: fc.nat(),
  })
  const property = fc.asyncProperty(fc.array(write, { maxLength: 25 }), async writes => {
    const pair = { first_name: 'Version', last_name: `Run ${++runs}` }
    const path = `/v1/users/${await pick(clients, 0).create('/v1/users', pair)}`
    const etags = async (client: number) =>
      Promise.all(
        ['', '?include=groups'].map(
          async query => (await pick(clients, client).get(path + query)).headers.etag,
        ),
      )
    const versions = [await etags(0)]
    let member = false
    let stored = pair.first_name
    for (const { kind, first_name, age, include, client } of writes) {
      const api = pick(clients, client)
      const headers = { 'if-match': versions.at(-1 - age)?.[Number(include)] ?? '"none"' }
      const sends = {
        put: () => api.put(path, { ...pair, first_name }, headers),
        patch: () => api.patch(path, { first_name }, headers),
        join: () => api.post(`${path}/groups`, { id: group }, headers),
        leave: () => api.delete(`${path}/groups/${group}`, headers),
        nothing: () => api.patch(path, {}, headers),
      }
      const { status } = await sends[kind]()
      const current = versions.at(-1)
      const stale = !current?.includes(headers['if-match'])
      assert.equal(status, stale ? 412 : kind === 'leave' && !member ? 404 : 200, kind)
      const isMembership = kind === 'join' || kind === 'leave'
      const isSame = isMembership ? member === (kind === 'join') : first_name === stored
      const unchanged = stale || kind === 'nothing' || isSame
      if (!unchanged && isMembership) member = kind === 'join'
      else if (!unchanged) stored = first_name
      const now = await etags(client + 1)
      if (unchanged) assert.deepEqual(now, current)
      else assert.ok(!versions.flat().some(etag => now.includes(etag)), 'an ETag was reused')
      versions.push(now)
    }
  })
  await fc.assert(property, { numRuns: 60 })
  t.pass()
})
