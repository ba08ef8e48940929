// Who checks is remembered, but neither too many nor for too long.
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

test('the last answer to each address, by label', t => {
  const checkers = createCheckers()
  checkers.checked('http', checker('10.0.0.1', 0))
  checkers.checked('http', checker('10.0.0.2', 1))
  checkers.checked('http', checker('10.0.0.1', 2, 404))
  checkers.checked('https', checker('10.0.0.3', 3))
  t.deepEqual(checkers.of('http', at(4)), [checker('10.0.0.2', 1), checker('10.0.0.1', 2, 404)])
  t.deepEqual(checkers.of('other', at(4)), [])
})

test('who has not checked for a minute is forgotten', t => {
  const checkers = createCheckers()
  checkers.checked('http', checker('10.0.0.1', 0))
  t.is(checkers.of('http', at(59_999)).length, 1)
  t.is(checkers.of('http', at(60_000)).length, 0)
})

test('sixty-four are remembered, the latest', t => {
  const checkers = createCheckers()
  for (let host = 0; host < 100; host++) checkers.checked('http', checker(`10.0.0.${host}`, host))
  const known = checkers.of('http', at(100))
  t.is(known.length, 64)
  t.is(known[0]?.address, '10.0.0.36')
})
