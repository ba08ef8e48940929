// pm2, as far as the commands need it: find an app, start one, remove one, and why one does not come up.
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import pm2, { type StartOptions } from 'pm2'
import { z } from 'zod'

/** pm2's daemon says goodbye a moment before it ends. */
const GOODBYE_MS = 100
/** Longer than pm2 takes from noticing an end to a restart: our apps' exp_backoff_restart_delay at first. */
const RESTART_MS = 400

const description = z.object({
  pid: z.number(),
  pm2_env: z.object({
    status: z.string(),
    pm_cwd: z.string(),
    pm_out_log_path: z.string(),
    pm_err_log_path: z.string(),
    restart_time: z.number(),
    exit_code: z.number().optional(),
  }),
})

/** What pm2 knows of an app. */
interface App {
  readonly isRunning: boolean
  /** How often pm2 has started it again by itself. */
  readonly restarts: number
  /** Of its last end. */
  readonly exitCode: number | undefined
  readonly folder: string
  /** The files that have what it printed. */
  readonly outputLog: string
  readonly errorLog: string
}

function read(raw: unknown): App {
  const { pid, pm2_env } = description.parse(raw)
  return {
    // An app that has ended before it was ready is called online, too, but has no process.
    isRunning: (pm2_env.status === 'online' || pm2_env.status === 'launching') && pid > 0,
    restarts: pm2_env.restart_time,
    exitCode: pm2_env.exit_code,
    folder: pm2_env.pm_cwd,
    outputLog: pm2_env.pm_out_log_path,
    errorLog: pm2_env.pm_err_log_path,
  }
}

/** What an app printed last on its standard error: what it calls errors, or else its last line. */
async function lastWords(name: string, { errorLog }: App): Promise<string> {
  const text = await readFile(errorLog, 'utf8').catch(() => '')
  const lines = text.trim().split('\n').slice(-20)
  const errors = lines.filter(line => line.includes('ERROR'))
  const words = errors.length > 0 ? errors.slice(-3).join(' ') : (lines.at(-1) ?? '')
  return words.replace(`${name}: `, '') || `see ${errorLog}`
}

export type ProcessManager = Awaited<ReturnType<typeof connect>>

async function connect() {
  await promisify<void>(callback => pm2.connect(callback))()
  const list = promisify(pm2.list.bind(pm2))

  async function find(name: string): Promise<App | undefined> {
    const found = (await list()).find(app => app.name === name)
    return found === undefined ? undefined : read(found)
  }

  /** Stops an app, as gently as its kill_timeout allows, and makes pm2 forget it. @returns whether it was there */
  async function remove(name: string): Promise<boolean> {
    const wasThere = (await find(name)) !== undefined
    while ((await find(name)) !== undefined) {
      // pm2 plans to restart an app that is stopped before it is ready: the second command cancels the plan.
      await promisify(pm2.stop.bind(pm2))(name)
      await promisify(pm2.delete.bind(pm2))(name)
      // But not one that it is just carrying out: then the app is back.
      await delay(RESTART_MS)
    }
    return wasThere
  }

  return {
    find,
    remove,

    /** Starts an app anew. Resolves when it runs or, if it says when it is ready, when it is, or has ended. */
    async start(app: StartOptions & { name: string }): Promise<void> {
      await remove(app.name)
      await promisify<StartOptions, unknown>(pm2.start.bind(pm2))(app)
    },

    /**
     * @param title of the app, for people
     * @throws Error with its last words if the app has ended since it was started, even if pm2 has started it again
     */
    async assertUp(name: string, title: string): Promise<void> {
      const app = await find(name)
      if (app === undefined) throw new Error(`${title} was removed from pm2`)
      if (!app.isRunning || app.restarts > 0)
        throw new Error(
          `${title} ended with exit code ${app.exitCode ?? 'unknown'}: ${await lastWords(name, app)}`,
        )
    },

    async isEmpty(): Promise<boolean> {
      return (await list()).length === 0
    },
  }
}

/** Runs `act` with pm2, whose daemon is started if need be, and ended again where it has nothing left to run. */
export async function withProcessManager<T>(act: (manager: ProcessManager) => Promise<T>): Promise<T> {
  const manager = await connect()
  try {
    return await act(manager)
  } finally {
    if (await manager.isEmpty()) {
      await promisify(pm2.killDaemon.bind(pm2))()
      await delay(GOODBYE_MS)
    }
    pm2.disconnect()
  }
}
