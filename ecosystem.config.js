// How pm2 runs the supervisor: `npm start` goes by this file, and so does `npx pm2 start ecosystem.config.js`.
import { createRequire } from 'node:module'

// pm2 loads this file synchronously, from any working directory.
process.env.NODE_CONFIG_DIR ??= `${import.meta.dirname}/config`
const settings = createRequire(import.meta.url)('config')

// What a stop may take on top of the drain: workers that are killed at the deadline, the control ports' end.
const STOP_MARGIN_MS = 10_000

export const apps = [
  {
    name: 'users-api',
    script: 'dist/supervisor.js',
    cwd: import.meta.dirname,
    exec_mode: 'fork',
    merge_logs: true,
    // node-config would take pm2's usual name for the choice of a file.
    instance_var: 'PM2_INSTANCE',
    // The module that pm2 would inject swallows unhandled rejections and dies with pm2's daemon.
    pmx: false,
    wait_ready: true,
    listen_timeout: settings.get('fleet.bootMs') + STOP_MARGIN_MS,
    kill_timeout: settings.get('drain.delayMs') + settings.get('drain.deadlineMs') + STOP_MARGIN_MS,
    // Signals are for the supervisor alone: it tells its workers.
    treekill: false,
    // More than the 100 ms that pm2 takes to notice that an app has stopped: it must not be restarted meanwhile.
    exp_backoff_restart_delay: 250,
    // A configuration fault does not mend itself. Never 0: pm2 takes a kill -9 for it.
    stop_exit_codes: [78],
  },
]
