// Stops the service: all ports go into maintenance, and after the drain delay the workers finish their requests.
import type { Log } from '../core/log.ts'
import type { Cluster } from './cluster/processes.ts'
import type { Control } from './control/control-ports.ts'
import type { Maintenance } from './maintenance.ts'
import type { Systemd } from './systemd.ts'

export interface ShutdownOptions {
  readonly log: Log
  readonly maintenance: Maintenance
  readonly control: Control
  readonly cluster: Cluster
  readonly systemd: Systemd
}

export function createShutdown({ log, maintenance, control, cluster, systemd }: ShutdownOptions) {
  /** The first call stops the service. Each further call skips the current wait. @param by the signal or the event */
  function stop(by: string): void {
    if (cluster.isStopping()) {
      cluster.skipWait()
      log.info({ by }, 'wait skipped')
      return
    }
    cluster.stop(maintenance.drainAll(by))
    void cluster.publish()
    for (const label of maintenance.labels) void control.sync(label)
    systemd.stopping()
    log.info({ by }, 'service stopping')
  }

  return {
    stop,
    /** The parent process is gone. An orphaned supervisor would keep the ports from the next one, so it stops. */
    stopAsOrphan(by: string): void {
      if (!cluster.isStopping()) stop(by)
    },
  }
}
