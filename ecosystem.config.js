// The pm2 configuration of the supervisor, used by `npm start` and by `npx pm2 start ecosystem.config.js`.
import { createRequire } from 'node:module'

// pm2 loads this file synchronously, from any working directory.
process.env.NODE_CONFIG_DIR ??= `${import.meta.dirname}/config`
const settings = createRequire(import.meta.url)('config')

// The time of a stop in addition to the drain: workers are killed at the deadline, and the control ports close.
const STOP_MARGIN_MS = 10_000

export const apps = [
  {
    name: 'users-api',
    script: 'dist/supervisor.js',
    cwd: import.meta.dirname,
    exec_mode: 'fork',
    merge_logs: true,
    // pm2's default name, NODE_APP_INSTANCE, would make node-config choose other configuration files.
    instance_var: 'PM2_INSTANCE',
    // The module that pm2 injects by default hides unhandled rejections and exits with pm2's daemon.
    pmx: false,
    wait_ready: true,
    listen_timeout: settings.get('fleet.bootMs') + STOP_MARGIN_MS,
    kill_timeout: settings.get('drain.delayMs') + settings.get('drain.deadlineMs') + STOP_MARGIN_MS,
    // Only the supervisor receives signals; it stops its workers itself.
    treekill: false,
    // Longer than the 100 ms that pm2 takes to notice that an app has stopped: pm2 must not restart it before that.
    exp_backoff_restart_delay: 250,
    // A restart cannot fix a configuration fault. 0 must not be listed: pm2 reports exit code 0 for an app that was
    // killed with SIGKILL.
    stop_exit_codes: [78],
  },
]
