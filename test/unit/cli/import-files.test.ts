// Import files that need no service to be read.
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { readCsv } from '../../../src/cli/import/csv.ts'
import { readJson } from '../../../src/cli/import/json.ts'
import { folder } from '../../support/folder.ts'

test('json: a byte order mark is skipped, and a file of more than 64 MiB is not read', async t => {
  const file = join(folder(t), 'a.json')
  writeFileSync(file, '\ufeff{"users": []}')
  t.deepEqual(await readJson(file), { groups: [], users: [] })
  truncateSync(file, 2 ** 26 + 1)
  await t.throwsAsync(readJson(file), {
    message: 'larger than 64 MiB: convert it to CSV, which has no size limit',
  })
})

test('csv: the header tells the separator, also after empty lines', async t => {
  const file = join(folder(t), 'a.csv')
  writeFileSync(file, '\r\n\r\nfirst_name;last_name\r\nAda;Lovelace\r\n')
  const { users } = await readCsv(file)
  for await (const user of users) t.like(user, { fields: { first_name: 'Ada', last_name: 'Lovelace' } })
  t.plan(1)
})

for (const [title, text, expected] of [
  [
    'different line breaks',
    'first_name,last_name\r\nAda,Lovelace\nEmmy,"No\nether"\r\nAlan,Tu\rring\n',
    [
      ['line 2', 'Ada', 'Lovelace'],
      ['line 4', 'Emmy', 'No\nether'],
      ['line 6', 'Alan', 'Tu\rring'],
    ],
  ],
  [
    'CR',
    'first_name,last_name\rAda,Lovelace\rEmmy,"No\nether"\r',
    [
      ['line 2', 'Ada', 'Lovelace'],
      ['line 4', 'Emmy', 'No\nether'],
    ],
  ],
] as const)
  test(`csv: rows can end with ${title}`, async t => {
    const file = join(folder(t), 'a.csv')
    writeFileSync(file, text)
    const { users } = await readCsv(file)
    const read: unknown[] = []
    for await (const { place, ...user } of users)
      read.push([place, ...('fields' in user ? Object.values(user.fields) : [user.fault])])
    t.deepEqual(read, expected)
  })
