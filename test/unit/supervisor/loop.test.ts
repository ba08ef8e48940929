// The loop that keeps the state of the fleet, for the commands that wait for a change of it.
import test from 'ava'
import { createLoop } from '../../../src/supervisor/fleet/loop.ts'
import { fleetSettings } from '../../support/fleet.ts'

test('until: a condition is not evaluated any more when it is fulfilled, or when its time is up', async t => {
  const loop = createLoop(fleetSettings, () => {})
  let evaluations = 0
  const fulfilled = loop.until(({ reload }) => {
    evaluations++
    return reload.state === 'running'
  })
  loop.record({ type: 'reload', watchMs: 0 })
  await fulfilled
  t.is(evaluations, 2)
  const isNever = () => {
    evaluations++
    return false
  }
  await loop.until(isNever, 1)
  t.is(evaluations, 3)
  loop.record({ type: 'stop', delayMs: 0 })
  t.is(evaluations, 3)
})
