// The state file: maintenance is kept across restarts and versions.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { readState, writeMaintenance } from '../../../src/supervisor/state-file.ts'
import { folder } from '../../support/folder.ts'

const http = { mode: 'refuse', since: '2026-01-01T00:00:00.000Z', by: 'ada' } as const

const stateFile = (t: ExecutionContext): string => join(folder(t), 'state.json')

test('state file: what is written is read', t => {
  const file = stateFile(t)
  t.deepEqual(readState(file), { is: 'missing' })
  writeMaintenance(file, new Map([['http', http]]))
  t.deepEqual(readState(file), { is: 'kept', maintenance: { http } })
})

test('state file: the maintenance is kept if a later version has added fields', t => {
  const file = stateFile(t)
  writeFileSync(file, JSON.stringify({ format: 2, maintenance: { http: { ...http, reason: 'upgrade' } } }))
  t.deepEqual(readState(file), { is: 'kept', maintenance: { http } })
})

test('state file: damaged without a required field', t => {
  const file = stateFile(t)
  writeFileSync(file, JSON.stringify({ maintenance: { http: { ...http, since: undefined } } }))
  t.is(readState(file).is, 'damaged')
})

test('state file: the error names the file if it cannot be written, and no part is left', t => {
  const file = stateFile(t)
  mkdirSync(file)
  t.throws(() => writeMaintenance(file, new Map([['http', http]])), {
    message: /^\S+state\.json cannot be written: EISDIR/,
  })
  t.deepEqual(readdirSync(dirname(file)), ['state.json'])
})
