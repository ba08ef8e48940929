// Starts the keeper of the trial cluster in the background, and shows the steps of its start.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'
import { findInstallation } from '../../src/cli/private-servers/mysql.ts'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { environmentWith, programFolders } from '../../src/config/environment.ts'
import { root } from '../../src/config/root.ts'
import { exitCodes, FatalError } from '../../src/core/exit-codes.ts'
import { base } from './ask-keeper.ts'

/** What the keeper reports to the process that has started it. */
const reportSchema = z.union([
  z.strictObject({ step: z.string() }),
  z.strictObject({ ready: z.string() }),
  z.strictObject({ failed: z.string() }),
])
export type Report = z.output<typeof reportSchema>

export interface KeeperOptions {
  /** The port of the API. */
  readonly port: string
  readonly mysql: boolean
}

const program = fileURLToPath(new URL('./keeper.ts', import.meta.url))

/** Debian's releases have no MySQL. @returns the folder of a downloaded one, or nothing if MySQL is installed */
async function downloadMysql(begin: (line: string) => void): Promise<string[]> {
  if ((await findInstallation(false)) !== undefined) return []
  begin('downloading MySQL from Debian unstable: this takes up to a minute')
  return [(await runProgram(join(root, '.ci', 'get-mysql'), [join(root, 'var', 'mysql-server')])).trim()]
}

/**
 * Starts the keeper and waits until the trial runs.
 * @param begin called with a line before each step
 * @param signal stops the keeper and everything that it has started
 * @returns the description of the trial
 */
export async function launchKeeper(
  { port, mysql }: KeeperOptions,
  begin: (line: string) => void,
  signal: AbortSignal,
): Promise<string> {
  const folders = mysql ? await downloadMysql(begin) : []
  const log = openSync(join(base, 'trial.log'), 'a')
  const keeper = spawn(
    process.execPath,
    [...process.execArgv, program, '--port', port, ...(mysql ? ['--mysql'] : [])],
    {
      env: environmentWith({ PATH: [...folders, programFolders()].join(':') }),
      detached: true,
      stdio: ['ignore', log, log, 'ipc'],
    },
  )
  closeSync(log)
  const exited = once(keeper, 'exit')
  signal.addEventListener('abort', () => keeper.kill('SIGTERM'))
  const outcome = new Promise<string>((resolve, reject) => {
    keeper.on('message', message => {
      const report = reportSchema.parse(message)
      if ('step' in report) begin(report.step)
      else if ('ready' in report) resolve(report.ready)
      else reject(new Error(report.failed))
    })
    exited.then(() => reject(new Error(`the trial ended, see ${join(base, 'trial.log')}`)), reject)
  })
  try {
    const description = await outcome
    keeper.disconnect()
    keeper.unref()
    return description
  } catch (error) {
    await exited
    throw signal.aborted ? new FatalError(exitCodes.interrupted, 'stopped') : error
  }
}
