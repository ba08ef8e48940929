// The choice of the host for a connection.
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import { connectToFirst } from '../../../src/database/first-host.ts'
import { until } from '../../support/until.ts'

const urls = ['a', 'b', 'c'].map(host => `mysql://me:secret@${host}:3306/users`)

/** Connects to hosts with the given outcomes. `connected` is the host in the URL. */
async function connect(outcomes: Record<string, () => Promise<unknown>>) {
  const closed: string[] = []
  const attempts: string[] = []
  const connected = connectToFirst(
    urls,
    async url => {
      const { hostname } = new URL(url)
      attempts.push(hostname)
      await outcomes[hostname]?.()
      return hostname
    },
    late => closed.push(late),
  )
  return { connected: await connected, attempts, closed }
}

const refuse = (code: string) => () =>
  Promise.reject(Object.assign(new Error(`refused with ${code}`), { code }))
const forever = () => new Promise(() => {})

test('hosts: the first one that accepts gets the connection', async t => {
  t.like(await connect({}), { connected: 'a', attempts: ['a'] })
  t.like(await connect({ a: refuse('ECONNREFUSED') }), { connected: 'b', attempts: ['a', 'b'] })
  t.like(await connect({ a: refuse('x'), b: refuse('y') }), { connected: 'c', attempts: ['a', 'b', 'c'] })
})

/** The number of timers that can call a function. */
const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length

test.serial('hosts: no timer outlives the connection or the error: it would try hosts again', async t => {
  const before = timers()
  await connect({ a: refuse('x') })
  t.is(timers(), before)
  await t.throwsAsync(connect({ a: refuse('x'), b: refuse('y'), c: refuse('z') }))
  t.is(timers(), before)
})

test('hosts: a host that does not answer is not waited for', async t => {
  t.like(await connect({ a: forever, b: refuse('ECONNREFUSED') }), { connected: 'c' })
})

test('hosts: while one does not answer, those that have rejected are tried again', async t => {
  let isElected = false
  const elect = async () => {
    const rejects = !isElected
    isElected = true
    if (rejects) throw new Error('read-only')
  }
  const { connected, attempts } = await connect({ a: forever, b: refuse('E'), c: elect })
  t.is(connected, 'c')
  t.deepEqual(attempts, ['a', 'b', 'c', 'b', 'c'])
})

test('hosts: a connection that comes too late is closed', async t => {
  let accept = () => {}
  const { connected, closed } = await connect({ a: () => new Promise<void>(resolve => (accept = resolve)) })
  t.is(connected, 'b')
  t.deepEqual(closed, [])
  accept()
  await until(() => closed.length > 0)
  t.deepEqual(closed, ['a'])
})

test('hosts: after a connection, one that rejects lets no other be tried', async t => {
  let reject = () => {}
  const { connected, attempts } = await connect({
    a: () =>
      new Promise((_, refuse) => {
        reject = () => refuse(new Error('late'))
      }),
  })
  t.is(connected, 'b')
  reject()
  await nextTurn()
  t.deepEqual(attempts, ['a', 'b'])
})

test('hosts: the error names all hosts, without the password', async t => {
  const error = await t.throwsAsync(connect({ a: refuse('E1'), b: refuse('E2'), c: refuse('E3') }))
  t.deepEqual(
    { ...error, message: error?.message },
    {
      code: 'E1',
      message: 'a:3306: refused with E1; b:3306: refused with E2; c:3306: refused with E3',
    },
  )
})
