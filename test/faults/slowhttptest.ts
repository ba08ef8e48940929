// Scenario: the attacks of slowhttptest (https://github.com/shekyan/slowhttptest), which probes throughout each attack
// whether the service is available.
import assert from 'node:assert/strict'
import { findProgram, installMissing, type Program } from '../../src/cli/private-servers/programs.ts'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const slowhttptest: Program = {
  title: 'slowhttptest',
  names: ['slowhttptest'],
  debianPackage: 'slowhttptest',
  brewFormula: 'slowhttptest',
}
const connections = 1000
const common = ['-c', String(connections), '-r', '200', '-l', '30', '-p', '3']
const attacks: Record<string, string[]> = {
  'slow headers': ['-H', '-i', '5'],
  'slow bodies': ['-B', '-i', '5', '-t', 'POST', '-s', '100000', '-f', 'application/json'],
  ranges: ['-R', '-a', '10', '-b', '3000'],
  'slow reads': ['-X', '-w', '1', '-y', '64', '-n', '5', '-z', '32', '-k', '2'],
}

export const slowHttpTest: Scenario = {
  title: 'slowhttptest',
  longOnly: true,

  async run() {
    await installMissing([slowhttptest], console.log)
    const program = findProgram(slowhttptest.names) ?? slowhttptest.title
    return withService({}, async service => {
      const workers = await service.workers()
      const url = `${service.url}/v1/users`
      for (const [name, options] of Object.entries(attacks)) {
        const output = await runProgram(program, [...common, ...options, '-u', url])
        const probes = output.match(/service available:\S*\s+\S*(YES|NO)/g) ?? []
        assert.ok(probes.length > 0, `${name}: ${output}`)
        assert.ok(!probes.some(line => line.endsWith('NO')), `${name}: the service was not available`)
        assert.deepEqual(await service.workers(), workers)
      }
      return `${Object.keys(attacks).join(', ')}, ${connections} connections each: always available`
    })
  },
}
