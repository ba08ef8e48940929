// What systemd asks of this process and passes to it. See sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3).

/**
 * Returns undefined if this process is not a systemd service of the type `notify`. If systemd hears nothing for `watchdogMs`,
 * it kills the process; without `WatchdogSec`, `watchdogMs` is undefined.
 */
export function readSystemdRequest(env = process.env) {
  if (env.NOTIFY_SOCKET === undefined) return undefined
  const watchdogMs = Number(env.WATCHDOG_USEC) / 1000
  // A child process inherits the variables of its parent, but not the duty.
  const isWatched = env.WATCHDOG_PID === undefined || Number(env.WATCHDOG_PID) === process.pid
  return { watchdogMs: isWatched && watchdogMs > 0 ? watchdogMs : undefined }
}

/** Returns the number of listening sockets that systemd passes to this process, and not to its parent. */
export function countListenFds(env = process.env): number {
  return Number(env.LISTEN_PID) === process.pid ? Number(env.LISTEN_FDS) || 0 : 0
}
