// Reports the state of the service to systemd (sd_notify(3)). Node has no Unix datagram sockets, so the program
// systemd-notify sends each message. Without systemd, nothing is sent.
import { execFile } from 'node:child_process'
import type { readSystemdRequest } from '../config/systemd.ts'
import type { Log } from '../core/log.ts'

/** @param request what systemd asks for; undefined if systemd does not run this process */
export function createSystemd(request: ReturnType<typeof readSystemdRequest>, log: Log) {
  let isReady = false

  function notify(state: string): void {
    if (request === undefined) return
    execFile('systemd-notify', [state], error => {
      if (error !== null) log.error({ state, reason: error.message }, 'systemd not notified')
    })
  }

  return {
    /** The service serves. From the first call on, the watchdog is fed for as long as the event loop runs. */
    ready(): void {
      if (isReady) return
      isReady = true
      notify('READY=1')
      // Half of the time, as sd_watchdog_enabled(3) recommends.
      if (request?.watchdogMs !== undefined) setInterval(notify, request.watchdogMs / 2, 'WATCHDOG=1').unref()
    },
    stopping: () => notify('STOPPING=1'),
  }
}
