// The functions of pm2 that the commands need: find, start and remove an app, and report why an app does not start.
import { mkdir, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { StartOptions } from 'pm2'
import * as z from 'zod'
import { pm2Home } from '../../config/pm2-environment.ts'
import { MAX_SOCKET_PATH } from '../../config/schema.ts'
import { reasonOf } from '../../core/error-reason.ts'
import { assertWritable } from '../private-servers/folders.ts'

/** Loads pm2, which writes into its folder meanwhile, and ends with stack traces if it cannot. */
const loadPm2 = async () => (await import('pm2')).default

/** pm2's daemon confirms that it is killed before it exits: up to 34 ms later beside 24 busy processes on two cores. */
const DAEMON_EXIT_MS = 300
/** Longer than pm2 takes from an app's exit to its restart: the initial exp_backoff_restart_delay of our apps. */
const RESTART_MS = 400

/** An app as pm2 describes it. */
const appSchema = z
  .object({
    pid: z.number(),
    pm2_env: z.object({
      status: z.string(),
      pm_cwd: z.string(),
      pm_err_log_path: z.string(),
      restart_time: z.number(),
      exit_code: z.number().optional(),
    }),
  })
  .transform(({ pid, pm2_env }) => ({
    // An app that exited before it was ready also has the status `online`, but no process.
    isRunning: (pm2_env.status === 'online' || pm2_env.status === 'launching') && pid > 0,
    /** It has got a signal and has not exited. A second signal would end its requests in flight. */
    isStopping: pm2_env.status === 'stopping',
    /** The number of restarts by pm2 itself. */
    restarts: pm2_env.restart_time,
    exitCode: pm2_env.exit_code,
    folder: pm2_env.pm_cwd,
    /** The file with the app's standard error. */
    errorLog: pm2_env.pm_err_log_path,
  }))
type App = z.output<typeof appSchema>

/** The end of an app's error log: its last lines with `ERROR`, or else its last line, or the uncaught error above it. */
async function lastErrors(name: string, { errorLog }: App): Promise<string> {
  const text = await readFile(errorLog, 'utf8').catch(() => '')
  const lines = text.trim().split('\n').slice(-20)
  const errors = lines.filter(line => line.includes('ERROR'))
  const last = lines.at(-1) ?? ''
  // Node.js prints its version below an uncaught error.
  const uncaught = last.startsWith('Node.js v') ? lines.findLast(line => /^\w*Error\b/.test(line)) : undefined
  const shown = errors.length > 0 ? errors.slice(-3).join(' ') : (uncaught ?? last)
  return shown.replace(`${name}: `, '') || `see ${errorLog}`
}

async function list() {
  const pm2 = await loadPm2()
  return promisify(pm2.list.bind(pm2))()
}

/** Returns the app with this name; undefined if pm2 has none. */
export async function findApp(name: string): Promise<App | undefined> {
  const found = (await list()).find(app => app.name === name)
  return found && appSchema.parse(found)
}

/** Stops an app within its kill_timeout and deletes it from pm2. @returns whether pm2 had the app */
export async function removeApp(name: string): Promise<boolean> {
  const pm2 = await loadPm2()
  const existed = (await findApp(name)) !== undefined
  while ((await findApp(name)) !== undefined) {
    // pm2 schedules a restart for an app that is stopped before it is ready. The second command cancels the
    // restart.
    await promisify(pm2.stop.bind(pm2))(name)
    await promisify(pm2.delete.bind(pm2))(name)
    // A restart that is already in progress cannot be cancelled: the app is back after it.
    await delay(RESTART_MS)
  }
  return existed
}

/**
 * Removes an app and starts it again. Resolves when the app runs, or has exited. For an app with `wait_ready`, it
 * resolves when the app is ready, or has exited.
 */
export async function startApp(app: StartOptions & { name: string }): Promise<void> {
  const pm2 = await loadPm2()
  await removeApp(app.name)
  await promisify<StartOptions, unknown>(pm2.start.bind(pm2))(app)
}

/**
 * @param title the app's name in the error message
 * @throws Error with the end of its error log if the app has exited since its start, even if pm2 has restarted it
 */
export async function assertUp(name: string, title: string): Promise<void> {
  const app = await findApp(name)
  if (app === undefined) throw new Error(`${title} was removed from pm2`)
  if (!app.isRunning || app.restarts > 0)
    throw new Error(`${title} exited with code ${app.exitCode ?? 'unknown'}: ${await lastErrors(name, app)}`)
}

/**
 * @throws Error that says what to do if pm2 cannot write into its folder, as for a user without a home, or if the path of the folder
 *   is too long
 */
async function assertPm2Usable(): Promise<void> {
  const folder = pm2Home()
  const excess = Buffer.byteLength(resolve(folder, 'rpc.sock')) - MAX_SOCKET_PATH
  // pm2's daemon could not listen, and pm2 would wait for it without end.
  if (excess > 0)
    throw new Error(
      `the path of pm2's folder ${folder} is ${excess} bytes too long for its Unix sockets: set PM2_HOME to a folder with a shorter path`,
    )
  // With the mode that pm2 gives it: other users can read the logs.
  await mkdir(folder, { recursive: true }).catch(() => {})
  await assertWritable(folder).catch((error: unknown) => {
    throw new Error(
      `pm2 ${reasonOf(error)}, or run \`export PM2_HOME=$PWD/var/pm2\` before every command in this folder`,
    )
  })
}

/**
 * Calls `act` while this process is connected to pm2, as the other functions of this file require. Starts pm2's daemon if
 * necessary, and ends the daemon if it runs no app.
 * @throws Error that says what to do if pm2 cannot use its folder
 */
export async function withPm2<T>(act: () => Promise<T>): Promise<T> {
  await assertPm2Usable()
  const pm2 = await loadPm2()
  await promisify<void>(callback => pm2.connect(callback))()
  try {
    return await act()
  } finally {
    if ((await list()).length === 0) {
      await promisify(pm2.killDaemon.bind(pm2))()
      await delay(DAEMON_EXIT_MS)
    }
    pm2.disconnect()
  }
}
