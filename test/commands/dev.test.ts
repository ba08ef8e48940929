// npm run dev: runs from source with private servers, which stop together with the service.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { createInstallation } from '../support/installation.ts'
import { collectLog } from '../support/log.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { ask } from '../support/service.ts'

const { scripts } = JSON.parse(await readFile('package.json', 'utf8'))

test('dev: --help says what it does, and another argument is refused', async t => {
  const PATH = `node_modules/.bin:${process.env.PATH}`
  const dev = (argument: string) =>
    runToEnd('sh', ['-c', `${scripts.dev} ${argument}`], { ...process.env, PATH })
  t.regex((await dev('--help')).stdout, /^usage: npm run dev\n\n {2}runs the service/)
  t.regex((await dev('--port')).stderr, /^users-api: Unknown option '--port'\n\nusage: npm run dev\n/)
})

test('dev: runs from source, so a built service does not contain it', async t => {
  const built = await readdir('dist')
  t.true(built.includes('start.js'))
  t.false(built.includes('dev.js'))
})

test('dev: starts private servers, prints a readable log, and leaves no process behind', async t => {
  const here = await createInstallation()
  t.teardown(() => here.remove())
  await cp('src', join(here.folder, 'src'), { recursive: true })
  const NODE_CONFIG = JSON.stringify({ ...here.config, drain: { delayMs: 500 } })
  const dev = spawn('sh', ['-c', scripts.dev], {
    cwd: here.folder,
    env: { ...here.env, NODE_CONFIG, PATH: `${join(here.folder, 'node_modules/.bin')}:${here.env.PATH}` },
    detached: true,
  })
  const log = collectLog(dev)
  const closed = once(dev, 'close')
  t.teardown(async () => {
    const isRunning = dev.exitCode === null && dev.signalCode === null
    if (isRunning && dev.pid !== undefined) process.kill(-dev.pid, 'SIGINT')
    await closed
  })
  await log.line(/worker listening/)
  t.is((await ask(`${here.url}/v1/users`))?.status, 200)
  await log.line(new RegExp(` ${here.url}/v1/docs$`))
  await log.line(/"\/v1\/users"/)
  t.regex(log.text(), /^\[[\d:.]+\] .*INFO.*\(\d+\): .*worker listening/m)
  // A Ctrl-C signals the whole process group.
  if (dev.pid !== undefined) process.kill(-dev.pid, 'SIGINT')
  await closed
  // One Ctrl-C is one signal: a second one would skip the drain wait.
  t.regex(log.text(), /service stopping/)
  t.notRegex(log.text(), /waiting no longer/)
  t.deepEqual(await here.processes(), [])
})
