// The choice of scenarios by the arguments of a command.
import test from 'ava'
import { chooseScenarios } from '../../faults/run-scenarios.ts'

const scenarios = { both: {}, long: { longOnly: true } } as const

test('scenarios: all without a name, and those that are named', t => {
  t.deepEqual(chooseScenarios(scenarios, [], false), [scenarios.both, scenarios.long])
  t.deepEqual(chooseScenarios(scenarios, [], true), [scenarios.both])
  t.deepEqual(chooseScenarios(scenarios, ['long'], false), [scenarios.long])
})

test('scenarios: a name that would run nothing is refused', t => {
  t.throws(() => chooseScenarios(scenarios, ['none'], false), {
    message: 'unknown scenario: none; the scenarios are both, long',
  })
  t.throws(() => chooseScenarios(scenarios, ['long', 'both'], true), {
    message: 'no short form: long; run it without --short',
  })
})
