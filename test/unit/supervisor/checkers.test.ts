// The memory of health checkers and its limits in number and time.
import test from 'ava'
import { createCheckers } from '../../../src/supervisor/control/checkers.ts'

const start = Date.parse('2026-01-01T00:00:00Z')
const at = (ms: number) => new Date(start + ms)
const checker = (address: string, ms: number, status = 200) => ({
  address,
  seen: at(ms).toISOString(),
  status,
  server_state: null,
})

test('checkers: the last response to each address, by label', t => {
  const checkers = createCheckers()
  checkers.record('http', checker('10.0.0.1', 0))
  checkers.record('http', checker('10.0.0.2', 1))
  checkers.record('http', checker('10.0.0.1', 2, 404))
  checkers.record('https', checker('10.0.0.3', 3))
  t.deepEqual(checkers.list('http', at(4)), [checker('10.0.0.2', 1), checker('10.0.0.1', 2, 404)])
  t.deepEqual(checkers.list('other', at(4)), [])
})

test('checkers: removed one minute after the last check', t => {
  const checkers = createCheckers()
  checkers.record('http', checker('10.0.0.1', 0))
  t.is(checkers.list('http', at(59_999)).length, 1)
  t.is(checkers.list('http', at(60_000)).length, 0)
})

test('checkers: only the 64 most recent are kept', t => {
  const checkers = createCheckers()
  for (let host = 0; host < 100; host++) checkers.record('http', checker(`10.0.0.${host}`, host))
  const known = checkers.list('http', at(100))
  t.is(known.length, 64)
  t.is(known[0]?.address, '10.0.0.36')
})
