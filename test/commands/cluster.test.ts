// `npm run cluster`: starts a real cluster, starts again what has ended, and stops everything.
import test from 'ava'
import { createInstallation } from '../support/installation.ts'
import { isAlive } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { until } from '../support/until.ts'

const installation = await createInstallation({ withPm2: false, withSource: true })
const claim = await claimPorts(6)
const cluster = (...args: string[]) => installation.run('test/trial/run.ts', args)

test.after.always(async () => {
  await cluster('stop')
  await installation.remove()
  await claim.release()
})

/** The process ids by part, as `status` shows them. Parts that do not run are missing. */
async function pids(): Promise<Map<string, number>> {
  const { stdout } = await cluster('status')
  return new Map(
    [...stdout.matchAll(/^ {2}(\w+) .*pid (\d+)/gm)].map(([, name = '', pid]) => [name, Number(pid)]),
  )
}

test.serial('cluster: starts, serves through all nodes, starts ended parts again, and stops', async t => {
  t.is((await cluster('status')).code, 3)
  const started = await cluster('--port', String(claim.first))
  t.is(started.code, 0, started.stderr)
  const url = `http://127.0.0.1:${claim.first}`
  t.true(started.stdout.includes(`${url}/v1/users`))
  t.regex(started.stdout, /starting 3 nodes of the service/)

  const body = JSON.stringify({ first_name: 'Ada', last_name: 'Lovelace' })
  const headers = { 'content-type': 'application/json' }
  const created = await fetch(`${url}/v1/users`, { method: 'POST', headers, body })
  t.is(created.status, 200)
  for (const node of [10, 20, 30]) {
    const read = await fetch(`http://127.0.0.1:${claim.first + node}${created.headers.get('location')}`)
    t.regex(await read.text(), /"last_name":"Lovelace"/)
  }

  const before = await pids()
  t.is(before.size, 13)
  const again = await cluster()
  t.regex(again.stdout, /already running/)

  const killed = before.get('node2') ?? 0
  process.kill(killed, 'SIGKILL')
  await until(async () => ![undefined, killed].includes((await pids()).get('node2')), { everyMs: 500 })
  t.is((await fetch(`http://127.0.0.1:${claim.first + 20}/v1/users`)).status, 200)

  const running = [...(await pids()).values()]
  t.is((await cluster('stop')).code, 0)
  t.deepEqual(running.filter(isAlive), [])
  t.is((await cluster('status')).code, 3)
  t.regex((await cluster('stop')).stdout, /not running/)
})

test.serial('cluster: a port that is in use, and an unknown command, are reported', async t => {
  const server = await fetch(`http://127.0.0.1:${claim.first}`).catch(() => undefined)
  t.is(server, undefined, 'the ports are free again')
  const unknown = await cluster('begin')
  t.is(unknown.code, 2)
  t.regex(unknown.stderr, /usage: npm run cluster/)
  // The lock of the claimed ports is listened on.
  const failed = await cluster('--port', String(claim.first - 1))
  t.is(failed.code, 1)
  t.regex(failed.stderr, new RegExp(`port ${claim.first - 1} is in use: free it`))
})
