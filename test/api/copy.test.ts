// The programs of the client's guide: a copy that follows the feed, and a forwarder.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { type Copy, keepCopy } from '../client/copy.ts'
import { openApi } from '../support/api-suite.ts'
import { folder } from '../support/folder.ts'
import { listenOnFreePort } from '../support/ports.ts'
import { runNode } from '../support/run-to-end.ts'
import { until } from '../support/until.ts'

const { service, api, close } = await openApi({ workers: 2 })
test.after.always(close)

const program = (name: string) => fileURLToPath(new URL(`../client/${name}.ts`, import.meta.url))

test('guide: the programs have the lengths that it names', async t => {
  for (const [name, lines] of [
    ['copy', 40],
    ['forward', 20],
  ] as const)
    t.true((await readFile(program(name), 'utf8')).trimEnd().split('\n').length <= lines, name)
})

test.serial('copy: follows every change, and begins again after its position has expired', async t => {
  const before = await api.create('/v1/users', { first_name: 'before', last_name: 'copy' })
  const copy: Copy = { users: new Map(), groups: new Map(), position: 0 }
  const controller = new AbortController()
  const keeping = keepCopy(service.url, copy, controller.signal).catch(() => {})
  t.teardown(async () => {
    controller.abort()
    await keeping
  })
  await until(() => copy.users.has(before))
  const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'copied' })
  const [team, other] = [
    await api.create('/v1/groups', { name: 'a' }),
    await api.create('/v1/groups', { name: 'b' }),
  ]
  await api.post(`/v1/users/${user}/groups`, { groups: [{ id: team }, { id: other }] })
  await until(() => copy.users.get(user)?.groups?.length === 2)
  await api.delete(`/v1/groups/${other}`)
  await api.patch(`/v1/groups/${team}`, { name: 'renamed' })
  await api.delete(`/v1/users/${before}`)
  await until(() => !copy.users.has(before) && !copy.groups.has(other))
  // The copy reads users before groups, so it can lack the group until now.
  await until(() => `${JSON.stringify(copy.groups.get(team))}`.includes('renamed'))
  t.deepEqual([...copy.users.keys()], [user])
  await until(() => JSON.stringify(copy.users.get(user)).includes('renamed'))
  t.deepEqual(
    copy.users.get(user)?.groups?.map(({ id }) => id),
    [team],
  )
  await runNode('dist/expire-changes.js', [], { ...process.env, DATABASE_URL: service.database })
  await api.patch(`/v1/users/${user}`, { first_name: 'Augusta' })
  await until(() => `${JSON.stringify(copy.users.get(user))}`.includes('Augusta'))
})

test.serial('copy: an error that a repetition does not mend is thrown', async t => {
  const copy: Copy = { users: new Map(), groups: new Map(), position: 0 }
  const { signal } = new AbortController()
  await t.throwsAsync(keepCopy(`${service.url}/elsewhere`, copy, signal), { message: /route_not_found/ })
})

test.serial(
  'forward: each event arrives in order, also after the program and its target were away',
  async t => {
    // Positions before it have expired.
    await runNode('dist/expire-changes.js', [], { ...process.env, DATABASE_URL: service.database })
    const received: number[] = []
    let refusals = 2
    const target = http.createServer(async (request, response) => {
      let text = ''
      for await (const chunk of request.setEncoding('utf8')) text += chunk
      response.statusCode = refusals-- > 0 ? 503 : 200
      t.is(request.headers['content-type'], 'application/json')
      if (response.statusCode === 200) received.push(JSON.parse(text).id)
      response.end()
    })
    const port = await listenOnFreePort(target)
    t.teardown(() => {
      target.close()
      target.closeAllConnections()
    })
    const file = join(folder(t), 'position')
    // Earlier changes have their numbers before this one has.
    const user = await api.create('/v1/users', { first_name: 'forwarded', last_name: 'before' })
    const { changes } = JSON.parse((await api.get(`/v1/changes?user_id=${user}&wait=60`)).text)
    const start = Number(changes[0].id)
    for (let run = 1; run <= 2; run++) {
      const args = ['--import=tsx', program('forward'), service.url, `http://127.0.0.1:${port}`, file]
      const child = spawn(process.execPath, args, { stdio: 'inherit' })
      t.teardown(() => child.kill('SIGKILL'))
      for (let n = 0; n < 5; n++)
        await api.create('/v1/users', { first_name: 'forwarded', last_name: `${run} ${n}` })
      await until(() => received.length > 5 * run)
      await until(async () => (await readFile(file, 'utf8')) === `${start + 5 * run}`)
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    t.deepEqual(
      received,
      Array.from({ length: 11 }, (_, at) => start + at),
    )
  },
)
