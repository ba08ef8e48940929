// Installs Platformatic DB and the Node version that it needs, outside the project and only for the benchmark.
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'

const versions = { '@platformatic/db': '3.67.0', node: '24.21.0' }

export const platformaticTitle = `Platformatic DB ${versions['@platformatic/db']} on Node ${versions.node}`

const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
const folder = join(cache, 'users-api', 'platformatic', Object.values(versions).join('-'))

/** The Node binary; its arguments are the server script and the folder of the package. */
export const platformaticProgram = join(folder, 'node_modules/node/bin/node')
export const platformaticArgs = [fileURLToPath(new URL('./platformatic-server.ts', import.meta.url)), folder]

/**
 * Installs both packages with npm unless they are installed.
 * @throws Error if npm fails, for example without a network
 */
export async function installPlatformatic(): Promise<void> {
  if (await stat(folder).catch(() => undefined)) return
  console.log(`installing ${platformaticTitle} in ${folder}: this takes up to a minute`)
  // Renamed to its final name only when complete.
  const incomplete = `${folder}.${process.pid}`
  try {
    await mkdir(incomplete, { recursive: true })
    await writeFile(
      join(incomplete, 'package.json'),
      JSON.stringify({ private: true, dependencies: versions }),
    )
    const npm = (...args: string[]) => runProgram('npm', ['--prefix', incomplete, ...args])
    // Scripts are ignored because the unused SQLite driver would be compiled. The node package needs its script, which
    // downloads the binary.
    await npm('install', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1')
    await npm('rebuild', 'node')
    await rename(incomplete, folder)
  } finally {
    await rm(incomplete, { recursive: true, force: true })
  }
}
