// Generated writes, compared with models: the outcomes of batches, and PUT and PATCH of users.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import type { Body } from '../support/http.ts'
import { names } from '../support/names.ts'

const { api, close } = await openApi()
test.after.always(close)

const pairOf = (first_name: string, last_name: string) => JSON.stringify([first_name, last_name])

/** A batch entry. A valid entry creates the user `pair`. The response repeats the fields `kept`. */
type Entry = { entry: unknown; pair?: string; kept: object }
const validEntry: fc.Arbitrary<Entry> = fc.tuple(names, names).map(([first_name, last_name]) => {
  const entry = { first_name, last_name }
  return { entry, pair: pairOf(first_name, last_name), kept: entry }
})
const invalidName = fc.constantFrom<unknown>(
  '',
  ' ',
  '\u0000',
  'a'.repeat(256),
  1,
  true,
  null,
  [],
  {},
  undefined,
)
const invalidEntry: fc.Arbitrary<Entry> = fc.oneof(
  fc
    .tuple(names, invalidName)
    .map(([first_name, last_name]) => ({ entry: { first_name, last_name }, kept: { first_name } })),
  fc
    .tuple(invalidName, names)
    .map(([first_name, last_name]) => ({ entry: { first_name, last_name }, kept: { last_name } })),
  fc.tuple(names, names).map(([first_name, last_name]) => ({
    entry: { first_name, last_name, extra: 1 },
    kept: { first_name, last_name },
  })),
  fc.constantFrom<unknown>(null, 1, 'x', [], true).map(entry => ({ entry, kept: {} })),
)

test.serial('write: each batch entry has its outcome at its index', async t => {
  const taken = new Set<string>()
  const entries = fc.array(
    fc.oneof({ arbitrary: validEntry, weight: 3 }, { arbitrary: invalidEntry, weight: 1 }),
    {
      minLength: 1,
      maxLength: 40,
    },
  )
  const property = fc.asyncProperty(entries, async batch => {
    const outcomes = batch.map(({ pair, kept }) => {
      if (pair === undefined) return { status: 400, code: 'a fault', kept }
      if (taken.has(pair)) return { status: 400, code: 'user_exists', kept }
      taken.add(pair)
      return { status: 200, code: undefined, kept }
    })
    const answer = await api.post('/v1/users', { users: batch.map(({ entry }) => entry) })
    assert.equal(answer.status, 200, answer.text)
    const { users = [], meta } = answer.body
    const found = users.map(({ id, meta: { status, code }, ...kept }: Body) => {
      assert.equal(id === undefined, status === 400)
      return { status, code: code === undefined || code === 'user_exists' ? code : 'a fault', kept }
    })
    assert.deepEqual(found, outcomes)
    const created = outcomes.filter(({ status }) => status === 200).length
    assert.deepEqual([meta.created, meta.failed], [created, batch.length - created])
    assert.equal(await api.count('/v1/users'), taken.size)
  })
  // No shrinking: a shrunk batch would conflict with the users that the longer one has stored.
  await fc.assert(property, { numRuns: 150, endOnFailure: true })
  t.pass()
})

interface Write {
  method: 'put' | 'patch'
  target: number
  fields: { first_name?: string | null; last_name?: string | null }
}
type Stored = { first_name?: string; last_name?: string }

/** Returns the user after the write: PUT replaces all fields, `null` removes a field. */
function apply(before: Stored, { method, fields }: Write): Stored {
  const after = method === 'put' ? {} : { ...before }
  for (const key of ['first_name', 'last_name'] as const) {
    const value = fields[key]
    if (value === null) delete after[key]
    else if (value !== undefined) after[key] = value
  }
  return after
}

test.serial('write: PUT and PATCH behave like the model', async t => {
  const ids: number[] = []
  for (let index = 0; index < 4; index++)
    ids.push(await api.create('/v1/users', { first_name: 'Model user', last_name: String(index) }))
  // Longer than the names of the batch test, which have at most three characters.
  const value = fc.option(fc.constantFrom('model', 'Model', 'model ', 'modél', '\u{1f600}odel'))
  const write: fc.Arbitrary<Write> = fc.record({
    method: fc.constantFrom('put', 'patch'),
    target: fc.nat(ids.length - 1),
    fields: fc.record({ first_name: value, last_name: value }, { requiredKeys: [] }),
  })
  const property = fc.asyncProperty(fc.array(write, { maxLength: 25 }), async writes => {
    for (const id of ids) await api.put(`/v1/users/${id}`, {})
    const model: Stored[] = ids.map(() => ({}))
    for (const each of writes) {
      const wanted = apply(model[each.target] ?? {}, each)
      const conflict = model.some(
        (other, index) =>
          index !== each.target &&
          wanted.first_name !== undefined &&
          wanted.last_name !== undefined &&
          other.first_name === wanted.first_name &&
          other.last_name === wanted.last_name,
      )
      const answer = await api[each.method](`/v1/users/${ids[each.target]}`, each.fields)
      assert.equal(answer.status, conflict ? 409 : 200, answer.text)
      if (!conflict) {
        model[each.target] = wanted
        const { id, meta, ...stored } = answer.body
        assert.deepEqual(stored, wanted)
      }
    }
    for (const [index, id] of ids.entries()) {
      const { meta, ...stored } = (await api.get(`/v1/users/${id}`)).body
      assert.deepEqual(stored, { id, ...model[index] })
    }
  })
  await fc.assert(property, { numRuns: 100 })
  t.pass()
})
