// No command of the project contacts a foreign machine. Every Node process, pm2's daemon included, records and refuses each
// look-up of a foreign name and each foreign connection. A timer of an hour or more runs every 100 ms, so that the test
// sees daily checks too.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { createInstallation } from '../support/installation.ts'
import { runFirst } from '../support/service.ts'
import { until } from '../support/until.ts'

/** The code that runs first in each Node process. It appends a line to `file` for each contact. */
function recordContacts(file: string): string {
  return `
import dns from 'node:dns'
import { appendFileSync } from 'node:fs'
import net from 'node:net'
const isLocal = host => [undefined, null, '', 'localhost', '127.0.0.1', '::1'].includes(host)
const refuse = (what, host) => {
  appendFileSync(${JSON.stringify(file)}, what + ' ' + host + ' by ' + process.argv[1] + '\\n')
  return Object.assign(new Error('refused: ' + host), { code: 'ENOTFOUND' })
}
for (const [module, isAsync] of [[dns, false], [dns.promises, true]])
  for (const name of Object.keys(module).filter(name => /^(lookup|resolve)/.test(name))) {
    const original = module[name]
    module[name] = (host, ...rest) => {
      if (isLocal(host)) return original(host, ...rest)
      const error = refuse(name, host)
      if (isAsync) return Promise.reject(error)
      process.nextTick(rest.at(-1), error)
    }
  }
const { connect } = net.Socket.prototype
net.Socket.prototype.connect = function (...args) {
  const [first, second] = Array.isArray(args[0]) ? args[0] : args
  const host = typeof first === 'object' ? (first.path ? undefined : first.host) : isNaN(first) ? undefined : second
  if (net.isIP(host ?? '') && !isLocal(host)) return this.destroy(refuse('connect', host))
  return connect.apply(this, args)
}
const { setInterval } = globalThis
globalThis.setInterval = (task, ms, ...args) => setInterval(task, ms >= 3_600_000 ? 100 : ms, ...args)
`
}

test('contacts: a first start, pm2, the commands and a stop contact no foreign machine', async t => {
  const here = await createInstallation()
  t.teardown(here.remove)
  const file = join(here.folder, 'contacts.txt')
  Object.assign(here.env, runFirst(recordContacts(file)))
  const contacts = () => readFile(file, 'utf8')
  // As a user types it: without variables that keep pm2 quiet.
  const pm2 = (args: readonly string[], more?: NodeJS.ProcessEnv) =>
    here.run('node_modules/pm2/bin/pm2', args, more)

  // pm2 alone asks for a newer version, at once and daily: the recorder works.
  await writeFile(file, '')
  const PM2_HOME = join(here.folder, 'pm2-alone')
  t.is((await pm2(['ls'], { PM2_HOME })).code, 0)
  for (const program of ['bin/pm2', 'Daemon.js']) {
    const line = new RegExp(` version\\.pm2\\.io by .*/${program}$`, 'm')
    await until(async () => line.test(await contacts()), { describe: () => `${line} in the contacts` })
  }
  t.is((await pm2(['kill'], { PM2_HOME })).code, 0)

  await writeFile(file, '')
  const started = await here.start()
  t.is(started.code, 0, started.stdout + started.stderr)
  t.is((await pm2(['ls'])).code, 0)
  t.is((await pm2(['trigger', 'users-api', 'status'])).code, 0)
  t.is((await here.ops('status')).code, 0)
  t.is((await here.run('dist/recount.js')).code, 0)
  t.is((await here.stop()).code, 0)
  t.is((await here.ops('status')).code, 3)
  t.is(await contacts(), '')
})
