// Waits until a started service is healthy. It asks for /readyz, so that the service does not take it for a checker.
import type { Config } from '../config/config.ts'
import { retry } from '../core/retry.ts'
import { readState } from '../supervisor/state-file.ts'
import { serviceName } from './command-line.ts'
import { controlUrl, statusOf } from './urls.ts'

const PAUSE_MS = 100

/**
 * Waits until every control port answers that the service is ready, or that a port is in maintenance (404). The control
 * ports of ports in maintenance with mode `refuse` are skipped, because they refuse connections.
 * @param assertRunning called between checks; an error that it throws ends the wait
 * @throws Error after `timeoutMs` milliseconds
 */
export async function waitUntilHealthy(
  config: Config,
  timeoutMs: number,
  assertRunning: () => void | Promise<void>,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs
  const state = readState(config.stateFile)
  const refuses = (label: string) => state.is === 'kept' && state.maintenance[label]?.mode === 'refuse'
  await assertRunning()
  for (const port of config.ports) {
    if (refuses(port.label)) continue
    const url = `${controlUrl(config, port)}/readyz`
    const assertHealthy = async () => {
      const status = await statusOf(url).catch(() => undefined)
      if (status !== 200 && status !== 404)
        throw new Error(
          `${url} answers ${status ?? 'nothing'} after ${timeoutMs / 1000} s:` +
            ` \`npx pm2 logs ${serviceName}\` may show the reason`,
        )
    }
    await retry(assertHealthy, {
      timeoutMs: deadlineMs - performance.now(),
      pauseMs: () => PAUSE_MS,
      beforePause: assertRunning,
    })
  }
}
