// Changes of many users with one request beside changes of single ones, against a model: the change feed has their order.
import assert from 'node:assert/strict'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { below, chance, pick, some } from '../support/feed-writes.ts'
import type { Body, Client } from '../support/http.ts'
import { createUsers } from '../support/records.ts'

const USERS = 12
const WRITERS = 8
const WRITES = 400
const MAX_ENTRIES = 30

const { api, openClient, close } = await openApi({ workers: 2 })
test.after.always(close)

interface Change {
  readonly id: number
  readonly first_name?: string | null
  readonly last_name?: string | null
}
/** The changes of a request, and what it has answered to each of them. */
type Answered = readonly (readonly [change: Change, entry: Body])[]

/** Few names, so that users often have equal ones. */
const names = [null, 'Ada', 'ada', 'Ad\u00e1', 'Augusta', 'King']

function randomChange(id: number): Change {
  const first_name = chance(0.6) ? { first_name: pick(names) ?? null } : {}
  const last_name = chance(0.6) ? { last_name: pick(names) ?? null } : {}
  return { id, ...first_name, ...last_name }
}

/** Sends a random write. @returns its changes; undefined if it deletes a user */
async function write(client: Client, ids: readonly number[], request: string): Promise<Answered | undefined> {
  const headers = { 'request-id': request }
  const id = pick(ids) ?? 0
  if (chance(0.01)) {
    await client.delete(`/v1/users/${id}`, headers)
    return undefined
  }
  const change = randomChange(id)
  if (chance(0.5)) {
    const { body } = await client.patch(`/v1/users/${id}`, change, headers)
    return [[change, body]]
  }
  const users = some(ids, 1 + below(MAX_ENTRIES)).map(randomChange)
  const { body, text } = await client.patch('/v1/users', { users }, headers)
  assert.equal(body.users?.length, users.length, text)
  return users.map((one, index) => [one, body.users?.[index] ?? { meta: { status: 0 } }])
}

/** A user as text: the fields that it has. */
const textOf = ({ first_name, last_name }: Omit<Change, 'id'>) =>
  JSON.stringify([first_name ?? null, last_name ?? null])

test('bulk: entries of concurrent requests have the results of a model, in the order of the feed', async t => {
  const ids = await createUsers(api, USERS)
  const { body } = await api.get('/v1/changes?after=latest')
  /** What each user was, the last state at the end. */
  const states = new Map<number, Change[]>()
  for (const { id = 0, first_name = null, last_name = null } of (await api.get('/v1/users')).body.users ?? [])
    states.set(id, [{ id, first_name, last_name }])

  const answers = new Map<string, Answered>()
  let sent = 0
  const writing = Array.from({ length: WRITERS }, async () => {
    const client = openClient()
    while (sent++ < WRITES) {
      const request = `bulk-${sent}`
      const answered = await write(client, ids, request)
      if (answered !== undefined) answers.set(request, answered)
    }
  })
  await Promise.all(writing)

  const deleted = new Set<number>()
  /** For each request and user, the entries that are stored or change nothing, in their order. */
  const left = new Map<string, (readonly [Change, Body])[]>()
  for (const [request, entries] of answers)
    for (const one of entries) {
      const [{ id }, { meta }] = one
      const key = `${request} ${id}`
      if (meta.status === 200) left.set(key, [...(left.get(key) ?? []), one])
      else assert.match(meta.code ?? '', /^user_(exists|not_found)$/)
    }

  const currentOf = (id: number): Change => states.get(id)?.at(-1) ?? { id }
  /** Takes the entries that leave the user as it is. */
  function takeUnchanged(key: string, id: number): void {
    const entries = left.get(key) ?? []
    while (entries[0] !== undefined) {
      const [change, shown] = entries[0]
      const current = textOf(currentOf(id))
      if (textOf({ ...currentOf(id), ...change }) !== current) return
      assert.equal(textOf(shown), current, key)
      entries.shift()
    }
    left.delete(key)
  }

  // Earlier changes have their numbers before this one has.
  const [last] = await createUsers(api, 1)
  let next = `${body.meta.links?.next}&wait=10`
  for (let isRead = false; !isRead; ) {
    const page = await api.get(next)
    const changes: readonly { type: string; user_id: number; request_id: string }[] = JSON.parse(
      page.text,
    ).changes
    for (const { type, user_id: id, request_id } of changes) {
      if (type === 'user.deleted') deleted.add(id)
      if (type === 'user.created') isRead = id === last
      if (type !== 'user.updated') continue
      const key = `${request_id} ${id}`
      takeUnchanged(key, id)
      const [change, shown] = left.get(key)?.shift() ?? []
      assert.ok(change !== undefined && shown !== undefined, `${key}: an event without a change`)
      const state = { ...currentOf(id), ...change }
      assert.equal(textOf(shown), textOf(state), key)
      states.get(id)?.push(state)
      takeUnchanged(key, id)
    }
    next = page.body.meta.links?.next ?? ''
  }

  // What is left has no event: it has found the user as it wants it.
  for (const [key, entries] of left)
    for (const [change, shown] of entries) {
      const texts = (states.get(change.id) ?? []).map(textOf)
      assert.ok(texts.includes(textOf(shown)), `${key}: ${textOf(shown)}`)
      assert.equal(textOf({ ...shown, ...change }), textOf(shown), key)
    }
  const given = new Set([...states.values()].flat().map(textOf))
  for (const [request, entries] of answers)
    for (const [{ id, ...fields }, { meta }] of entries) {
      if (meta.code === 'user_not_found') assert.ok(deleted.has(id), request)
      if (meta.code !== 'user_exists') continue
      const wanted = (states.get(id) ?? []).map(state => textOf({ ...state, ...fields }))
      assert.ok(
        wanted.some(text => given.has(text)),
        `${request}: no user was ${wanted.join(' or ')}`,
      )
    }
  for (const id of ids) {
    const { status, body } = await api.get(`/v1/users/${id}`)
    t.is(status, deleted.has(id) ? 404 : 200)
    if (status === 200) t.is(textOf(body), textOf(currentOf(id)))
  }
})
