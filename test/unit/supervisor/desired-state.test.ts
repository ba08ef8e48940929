// The desired state of the workers: the keys of JWT issuers that it keeps.
import test from 'ava'
import { createDesiredState } from '../../../src/supervisor/desired-state.ts'

test('desired state: of the keys of an issuer, it keeps those of the latest reading', t => {
  const desired = createDesiredState('info', {})
  const keep = (source: string, text: string, beganMs: number) =>
    desired.keepIssuerKeys({ source, keys: { text, beganMs } })
  const kept = () => Object.values(desired.current().issuerKeys ?? {}).map(({ text }) => text)
  t.true(keep('one', 'new', 2))
  t.false(keep('one', 'withdrawn', 1))
  t.deepEqual(kept(), ['new'])
  t.false(keep('one', 'new', 3), 'the other workers have these keys')
  t.false(keep('one', 'withdrawn', 2))
  t.true(keep('other', 'of another issuer', 1))
  t.true(keep('one', 'newer', 4))
  t.deepEqual(kept(), ['newer', 'of another issuer'])
})
