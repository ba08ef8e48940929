// A missing generation token is an error: it is never part of a cache key.
import test from 'ava'
import mysql from 'mysql2/promise'
import { readRow } from '../../src/model/row.ts'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'

const { service, api, close } = await openApi()
const direct = await mysql.createConnection(service.database)
test.after.always(async t => {
  await direct.end()
  await close(t)
})

test('generation: includes are 503 while the token is missing, and a rename restores it', async t => {
  const group = await api.create('/v1/groups', { name: 'before' })
  const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: group }))
  await direct.query('DELETE FROM group_generation')
  for (const path of [
    `/v1/users/${user}?include=groups`,
    '/v1/users?include=groups',
    `/v1/users/${user}/groups`,
  ])
    expectError(t, await api.get(path), 503, 'unavailable')
  for (const name of ['after', 'later']) {
    expectOk(t, await api.patch(`/v1/groups/${group}`, { name }))
    const { groups } = (await api.get(`/v1/users/${user}?include=groups`)).body
    t.like(groups, [{ id: group, name }])
  }
})

test('rows: a row whose id, version or generation is not a number is unavailable', t => {
  const row = { id: 1, version: 2, generation: 3, name: 'x' }
  t.is(readRow(row), row)
  for (const field of ['id', 'version', 'generation'])
    t.throws(() => readRow({ ...row, [field]: null }), { any: true, code: 'unavailable' })
})
