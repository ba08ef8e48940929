// A copy of the built project in a temporary folder with a separate pm2, or without pm2, so that its commands do not affect
// others.
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../src/config/root.ts'
import { claimPorts } from './ports.ts'
import { isOfProject } from './project-settings.ts'
import { type Outcome, runNode, runToEnd } from './run-to-end.ts'

export type Installation = Awaited<ReturnType<typeof createInstallation>>

/** Arguments of setpriv (util-linux) that remove the capability, even from root. */
const unprivileged = ['--inh-caps=-net_bind_service', '--bounding-set=-net_bind_service']

/** Without them, pm2 contacts its vendor. */
const quietPm2 = { PM2_DISABLE_VERSION_CHECK: 'true', PM2_DISCRETE_MODE: 'true' }

/** The environment of a user without any settings. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const names = ['PATH', 'HOME', 'USER', 'LOGNAME', 'LANG', 'TMPDIR', 'TERM']
  return Object.fromEntries(names.map(name => [name, process.env[name]]))
}

/** Links each package but pm2, as if pm2's folder had been removed. */
async function linkPackagesWithoutPm2(from: string, to: string): Promise<void> {
  await mkdir(to)
  const packages = (await readdir(from)).filter(name => !/^(@?pm2|\..*)$/.test(name))
  await Promise.all(packages.map(name => symlink(join(from, name), join(to, name))))
}

const built = ['dist', 'config', 'ecosystem.config.js', 'package.json']
const source = ['src', 'test', 'tsconfig.json']

/**
 * @param withPm2 whether the copy has pm2
 * @param withSource whether the copy can run what is not built
 */
export async function createInstallation({ withPm2 = true, withSource = false } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'users-api-installed-'))
  for (const part of withSource ? [...built, ...source] : built)
    await cp(join(root, part), join(folder, part), { recursive: true, filter: isOfProject })
  const packages = [join(root, 'node_modules'), join(folder, 'node_modules')] as const
  await (withPm2 ? symlink(...packages) : linkPackagesWithoutPm2(...packages))
  const claim = await claimPorts()
  const port = claim.first
  const config = {
    ports: [
      { label: 'http', port, protocol: 'http' },
      { label: 'https', port: port + 2, protocol: 'https' },
    ],
    workers: 1,
  }
  const env: NodeJS.ProcessEnv = {
    ...plainEnvironment(),
    PM2_HOME: join(folder, 'pm2'),
    NODE_CONFIG: JSON.stringify(config),
  }

  /** Runs a Node program in this folder. */
  const run = (
    script: string,
    args: readonly string[] = [],
    more: NodeJS.ProcessEnv = {},
  ): Promise<Outcome> => runNode(script, args, { ...env, ...more }, folder)

  /** Runs the pm2 command. */
  const pm2 = (args: readonly string[], more: NodeJS.ProcessEnv = {}) =>
    run('node_modules/pm2/bin/pm2', args, { ...quietPm2, ...more })

  /** The processes of this installation as lines of `ps`. Each has the folder in its environment. */
  async function processes(): Promise<string[]> {
    const list = async (...options: string[]) =>
      // The output contains the environments of all processes and can be long.
      (await promisify(execFile)('ps', options, { maxBuffer: Number.POSITIVE_INFINITY })).stdout.split('\n')
    const pidOf = (line: string) => Number.parseInt(line, 10)
    // The command line is not sufficient: pm2's daemon changes its title, which is cut to the original length.
    const ours = (await list('axeww', '-o', 'pid=,args=')).filter(line => line.includes(folder)).map(pidOf)
    return (await list('axww', '-o', 'pid=,args=')).filter(line => ours.includes(pidOf(line)))
  }

  return {
    folder,
    config,
    env,
    port,
    run,
    url: `http://127.0.0.1:${port}`,
    start: (more?: NodeJS.ProcessEnv) => run('dist/start.js', [], more),
    /** Runs `npm start` without the right to listen on ports below 1024. */
    startUnprivileged: (more: NodeJS.ProcessEnv) =>
      runToEnd('setpriv', [...unprivileged, process.execPath, 'dist/start.js'], { ...env, ...more }, folder),
    stop: () => run('dist/stop.js'),
    ops: (...args: string[]) => run('dist/ops.js', args),
    pm2,

    processes,

    /** Stops the service and pm2's daemon, if they are running, and removes the folder. */
    async remove(): Promise<void> {
      if (withPm2 && (await processes()).length > 0) {
        await run('dist/stop.js')
        await pm2(['kill'])
      }
      await claim.release()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
