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
