// The import of more users than one batch has.
import test from 'ava'
import type { Api } from '../../../src/cli/import/api-client.ts'
import { createImportProgress } from '../../../src/cli/import/import-progress.ts'
import { load } from '../../../src/cli/import/importer.ts'

test('import: each user, each group and each membership is sent once, whatever the number of batches', async t => {
  const sent = new Map<string, object[]>()
  const api: Api = {
    create: async (path, _, entries) => {
      const list = sent.get(path) ?? []
      sent.set(path, list)
      const meta = { status: 200, message: '', created: 0 }
      return { entries: entries.map(entry => ({ id: list.push(entry), meta })), created: entries.length }
    },
    find: async () => 'no record exists before',
    assertReachable: async () => {},
  }
  const users = Array.from({ length: 1100 }, (_, index) => ({
    place: `users[${index}]`,
    share: 0,
    fields: { first_name: 'a', last_name: String(index) },
    groups: ['one', 'two', 'one'],
  }))
  const progress = createImportProgress({ columns: 80, isTTY: false, write: () => true })
  t.deepEqual(await load({ groups: ['two'], users }, api, progress), {
    users: { created: 1100, unchanged: 0, failed: 0 },
    groups: { created: 2, unchanged: 0, failed: 0 },
    memberships: { created: 2200, unchanged: 0, failed: 0 },
  })
  const ids = users.map((_, index) => ({ id: index + 1 }))
  t.deepEqual(Object.fromEntries(sent), {
    '/v1/groups': [{ name: 'two' }, { name: 'one' }],
    '/v1/users': users.map(({ fields }) => fields),
    '/v1/groups/1/users': ids,
    '/v1/groups/2/users': ids,
  })
})
