// Scenario: clients rename groups without a pause. Reads with `include` of users in other groups go on.
import assert from 'node:assert/strict'
import { type Answer, type Client, createClient } from '../support/http.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const READERS = 24
const RENAMERS = 16
const USERS = 400
const MIN_RATE = 0.4
/** Rates of a few seconds differ on a loaded machine. */
const ATTEMPTS = 3
const SECONDS = 5

/** Repeats a request with several clients until the signal. @returns the number of responses */
async function repeat(
  url: string,
  clients: number,
  signal: AbortSignal,
  send: (api: Client, client: number, count: number) => Promise<Answer>,
): Promise<number> {
  let total = 0
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const api = createClient(url)
      for (let count = 0; !signal.aborted; count++) {
        const { status, text } = await send(api, client, count)
        assert.equal(status, 200, text)
        total++
      }
      api.close()
    }),
  )
  return total
}

export const groupRenames: Scenario = {
  title: 'reads with include beside renames of other groups',
  longOnly: true,

  run: () =>
    withService({}, async ({ url }) => {
      const setup = createClient(url)
      const group = await setup.create('/v1/groups', { name: 'read' })
      const renamed = await Promise.all(
        Array.from({ length: RENAMERS }, (_, n) => setup.create('/v1/groups', { name: `renamed ${n}` })),
      )
      const { users = [] } = (
        await setup.post('/v1/users', {
          users: Array.from({ length: USERS }, (_, n) => ({ first_name: 'Read', last_name: `${n}` })),
        })
      ).body
      const ids = users.flatMap(({ id }) => id ?? [])
      await setup.post(`/v1/groups/${group}/users`, { users: ids.map(id => ({ id })) })
      setup.close()

      const read = (signal: AbortSignal) =>
        repeat(url, READERS, signal, (api, client, count) =>
          api.get(`/v1/users/${ids[(client + count * READERS) % ids.length]}?include=groups`),
        )
      let line = ''
      for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
        await read(AbortSignal.timeout(1000))
        const before = await read(AbortSignal.timeout(1000 * SECONDS))
        const signal = AbortSignal.timeout(1000 * SECONDS)
        const [during, renames] = await Promise.all([
          read(signal),
          repeat(url, RENAMERS, signal, (api, client, count) =>
            api.patch(`/v1/groups/${renamed[client]}`, { name: `renamed ${client} ${attempt} ${count}` }),
          ),
        ])
        const ratio = during / before
        line = `${Math.round(before / SECONDS)} → ${Math.round(during / SECONDS)} reads/s (${ratio.toFixed(2)}) beside ${Math.round(renames / SECONDS)} renames/s, none failed`
        if (ratio >= MIN_RATE) return line
      }
      throw new Error(line)
    }),
}
