// The keys of the JWT issuer in several workers: they outlive workers while the issuer is away, and what one worker has read
// holds for all of them.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { folder } from '../support/folder.ts'
import { claims, createKey, keySet, sign, startIssuer } from '../support/issuer.ts'
import { createOperator } from '../support/operator.ts'
import { until } from '../support/until.ts'

const first = await createKey('first')
const second = await createKey('second')
const issuer = await startIssuer(first)
const { service, openClient, close } = await openApi({
  workers: 2,
  config: { auth: { jwt: issuer.settings } },
})
const operator = createOperator(service)

test.after.always(async t => {
  issuer.close()
  await close(t)
})

/** Returns the statuses of 40 requests, each on a new connection, so that both workers serve some. */
async function statuses(token: string): Promise<number[]> {
  const found = new Set<number>()
  for (let requests = 0; requests < 40; requests++) {
    const client = openClient()
    found.add((await client.get('/v1/users', { authorization: `Bearer ${token}` })).status)
    client.close()
  }
  return [...found]
}

test.serial(
  'issuer: while it is away, workers that are replaced or reloaded accept the last keys',
  async t => {
    const token = await sign(first, claims())
    t.deepEqual(await statuses(token), [200])
    issuer.setAway(true)
    for (const pid of await service.workers()) {
      process.kill(pid, 'SIGKILL')
      await operator.until(
        ({ workers }) =>
          workers.length === 2 && workers.every(one => one.pid !== pid && one.state === 'ready'),
      )
      t.deepEqual(await statuses(token), [200])
    }
    t.is((await operator.run('reload')).error, undefined)
    t.deepEqual(await statuses(token), [200])
    // A worker asks the issuer for an unknown key only when its keys are 5 s old. The issuer may have this one.
    const unknown = await sign(second, claims())
    await until(async () => (await statuses(unknown)).join() === '503')
  },
)

test.serial(
  'issuer: a key that one worker has found withdrawn is refused by all, also by new ones',
  async t => {
    const [old, current] = [await sign(first, claims()), await sign(second, claims())]
    t.deepEqual(await statuses(old), [200])
    issuer.use(second)
    issuer.setAway(false)
    // On one connection, so that only one worker reads the keys.
    const client = openClient()
    const authorization = `Bearer ${current}`
    await until(async () => (await client.get('/v1/users', { authorization })).status === 200)
    client.close()
    issuer.setAway(true)
    await until(async () => (await statuses(current)).join() === '200')
    await until(async () => (await statuses(old)).join() === '401')
    t.is((await operator.run('reload')).error, undefined)
    t.false((await statuses(old)).includes(200))
    t.deepEqual(await statuses(current), [200])
  },
)

test.serial(
  'issuer: while the file with its keys is damaged, a worker that is replaced accepts the last keys',
  async t => {
    const file = join(folder(t), 'jwks.json')
    writeFileSync(file, await keySet(first))
    const other = await openApi({ workers: 1, config: { auth: { jwt: { ...issuer.settings, jwks: file } } } })
    t.teardown(() => other.service.stop())
    const status = async () => {
      const client = other.openClient()
      const { status } = await client.get('/v1/users', {
        authorization: `Bearer ${await sign(first, claims())}`,
      })
      client.close()
      return status
    }
    t.is(await status(), 200)
    writeFileSync(file, '{')
    const [before = 0] = await other.service.workers()
    process.kill(before, 'SIGKILL')
    await createOperator(other.service).until(
      ({ workers: [one] }) => one !== undefined && one.pid !== before && one.state === 'ready',
    )
    t.is(await status(), 200)
  },
)
