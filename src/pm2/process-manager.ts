// pm2, as far as the commands need it: which apps there are, start one, remove one, and why one does not come up.
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import pm2, { type StartOptions } from 'pm2'
import { z } from 'zod'

const description = z.object({
  name: z.string(),
  pid: z.number(),
  pm2_env: z.object({
    status: z.string(),
    pm_cwd: z.string(),
    pm_uptime: z.number(),
    pm_err_log_path: z.string(),
    restart_time: z.number(),
    exit_code: z.number().optional(),
  }),
})

type App = z.output<typeof description>

/** An app did not come up: it ended. The message has its last words. */
export class AppEndedError extends Error {
  readonly exitCode: number | undefined
  constructor({ name, pm2_env }: App, lastWords: string) {
    super(`${name} ended with exit code ${pm2_env.exit_code ?? 'unknown'}: ${lastWords}`)
    this.name = 'AppEndedError'
    this.exitCode = pm2_env.exit_code
  }
}

// An app that ends before it is ready is called online, too, but has no process.
const runs = ({ pid, pm2_env }: App) =>
  (pm2_env.status === 'online' || pm2_env.status === 'launching') && pid > 0

/** What an app printed last on its standard error: what it calls errors, or else its last line. */
async function lastWords({ pm2_env }: App): Promise<string> {
  const text = await readFile(pm2_env.pm_err_log_path, 'utf8').catch(() => '')
  const lines = text.trim().split('\n').slice(-20)
  const errors = lines.filter(line => line.includes('ERROR'))
  return (errors.length > 0 ? errors.slice(-3).join(' ') : lines.at(-1)) || `see ${pm2_env.pm_err_log_path}`
}

export type ProcessManager = Awaited<ReturnType<typeof connect>>

async function connect() {
  await promisify<void>(callback => pm2.connect(callback))()
  const list = promisify(pm2.list.bind(pm2))

  async function find(name: string): Promise<App | undefined> {
    const found = (await list()).find(app => app.name === name)
    return found === undefined ? undefined : description.parse(found)
  }

  /** Stops the app, as gently as its kill_timeout allows, and makes pm2 forget it. */
  async function remove(name: string): Promise<void> {
    await promisify(pm2.delete.bind(pm2))(name)
  }

  return {
    remove,

    /** @returns whether the app was there */
    async isKnown(name: string): Promise<boolean> {
      return (await find(name)) !== undefined
    },

    async isRunning(name: string): Promise<boolean> {
      const app = await find(name)
      return app !== undefined && runs(app)
    },

    /** The working directory of an app. */
    async folderOf(name: string): Promise<string | undefined> {
      return (await find(name))?.pm2_env.pm_cwd
    },

    /** Resolves when the app runs or, if it says when it is ready, when it is or has ended. */
    async start(app: StartOptions & { name: string }): Promise<void> {
      if ((await find(app.name)) !== undefined) await remove(app.name)
      await promisify<StartOptions, unknown>(pm2.start.bind(pm2))(app)
    },

    /** @throws AppEndedError if the app has ended since it was started, even if pm2 has started it again */
    async assertUp(name: string): Promise<void> {
      const app = await find(name)
      if (app === undefined) throw new Error(`${name} was removed from pm2`)
      if (!runs(app) || app.pm2_env.restart_time > 0) throw new AppEndedError(app, await lastWords(app))
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
    if (await manager.isEmpty()) await promisify(pm2.killDaemon.bind(pm2))()
    pm2.disconnect()
  }
}
