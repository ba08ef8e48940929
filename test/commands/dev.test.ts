// npm run dev: runs from source with private servers, which stop together with the service.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { createInstallation } from '../support/installation.ts'
import { ask } from '../support/service.ts'

test('dev: starts private servers, prints a readable log, and leaves no process behind', async t => {
  const here = await createInstallation()
  t.teardown(() => here.remove())
  await cp('src', join(here.folder, 'src'), { recursive: true })
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8'))
  const NODE_CONFIG = JSON.stringify({ ...here.config, drain: { delayMs: 500 } })
  const dev = spawn('sh', ['-c', scripts.dev], {
    cwd: here.folder,
    env: { ...here.env, NODE_CONFIG, PATH: `${join(here.folder, 'node_modules/.bin')}:${here.env.PATH}` },
    detached: true,
  })
  let text = ''
  for (const stream of [dev.stdout, dev.stderr]) stream.setEncoding('utf8').on('data', part => (text += part))
  const closed = once(dev, 'close')
  while (!text.includes('worker listening')) await once(dev.stdout, 'data')
  t.is((await ask(`${here.url}/v1/users`))?.status, 200)
  while (!text.includes(` ${here.url}/v1/docs\n`)) await once(dev.stdout, 'data')
  while (!text.includes('"/v1/users"')) await once(dev.stdout, 'data')
  t.regex(text, /^\[[\d:.]+\] .*INFO.*\(\d+\): .*worker listening/m)
  // A Ctrl-C signals the whole process group.
  if (dev.pid !== undefined) process.kill(-dev.pid, 'SIGINT')
  await closed
  // One Ctrl-C is one signal: a second one would skip the drain wait.
  t.regex(text, /service stopping/)
  t.notRegex(text, /wait skipped/)
  t.deepEqual(await here.processes(), [])
})
