// Scenario: many clients join and leave one group through several workers, without a pause. Renames of the group, which need
// its row alone, are stored nevertheless.
import assert from 'node:assert/strict'
import { createClient } from '../support/http.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const CLIENTS = 24
const MAX_MEDIAN_MS = 3000

export const busyGroup: Scenario = {
  title: 'renames of a group that many join and leave',

  run: ({ short }) =>
    withService({ workers: 4 }, async service => {
      const setup = createClient(service.url)
      const group = await setup.create('/v1/groups', { name: 'busy' })
      const endMs = performance.now() + (short ? 5000 : 20_000)
      let changes = 0
      const member = async (_: unknown, index: number) => {
        const api = createClient(service.url)
        const id = await api.create('/v1/users', { first_name: 'Busy', last_name: `${index}` })
        while (performance.now() < endMs) {
          const joined = await api.post(`/v1/users/${id}/groups`, { id: group })
          const left = await api.delete(`/v1/users/${id}/groups/${group}`)
          assert.deepEqual([joined.status, left.status], [200, 200], joined.text + left.text)
          changes += 2
        }
        api.close()
      }
      const times: number[] = []
      const rename = async () => {
        const api = createClient(service.url)
        while (performance.now() < endMs) {
          const beganMs = performance.now()
          const { status, text } = await api.patch(`/v1/groups/${group}`, { name: `busy ${times.length}` })
          assert.equal(status, 200, text)
          times.push(performance.now() - beganMs)
        }
        api.close()
      }
      await Promise.all([...Array.from({ length: CLIENTS }, member), rename()])
      setup.close()
      times.sort((a, b) => a - b)
      const median = times[Math.floor(times.length / 2)] ?? 0
      const slowest = times.at(-1) ?? 0
      const summary = `${times.length} renames beside ${changes} changes of memberships, none failed; median ${Math.round(median)} ms, slowest ${Math.round(slowest)} ms`
      assert.ok(median < MAX_MEDIAN_MS, summary)
      return summary
    }),
}
