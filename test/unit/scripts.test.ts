// The scripts of package.json.
import { mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test from 'ava'
import { folder } from '../support/folder.ts'
import { runToEnd } from '../support/run-to-end.ts'

const { scripts } = JSON.parse(await readFile('package.json', 'utf8'))

test('ready: installs the packages after a change of the lock file, and if those for development are missing', async t => {
  const here = folder(t)
  const modules = join(here, 'node_modules')
  const isInstalling = async () =>
    (await runToEnd('sh', ['-c', `npm() { :; }; ${scripts.ready}`], process.env, here)).stdout !== ''
  await writeFile(join(here, 'package-lock.json'), '')
  await utimes(join(here, 'package-lock.json'), 1, 1)
  t.true(await isInstalling())

  await mkdir(join(modules, 'esbuild'), { recursive: true })
  await writeFile(join(modules, '.package-lock.json'), '')
  t.false(await isInstalling())

  await rm(join(modules, 'esbuild'), { recursive: true })
  t.true(await isInstalling())

  await mkdir(join(modules, 'esbuild'))
  await utimes(join(modules, '.package-lock.json'), 0, 0)
  t.true(await isInstalling())
})

test('build: a version of Node.js that is too old is named', async t => {
  for (const version of ['18.20.8', '20.9.0']) {
    const versions = JSON.stringify({ ...process.versions, node: version })
    const pretend = `data:text/javascript,${encodeURIComponent(`Object.defineProperty(process, "versions", { value: ${versions} })`)}`
    const { code, stderr } = await runToEnd(process.execPath, ['--import', pretend, '.esbuild.js'])
    t.is(code, 1)
    t.is(stderr, `users-api: needs Node.js 20.19 or newer, and this is ${version}: install a newer one\n`)
  }
})
