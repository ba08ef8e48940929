// Reports what a running `wait` command waits for.
import { setTimeout as delay } from 'node:timers/promises'
import { statusSchema } from '../../supervisor/control/status.ts'
import { sendCommand } from './client.ts'
import { describePending } from './reply-text.ts'

const INTERVAL_MS = 3000
const STATUS_TIMEOUT_MS = 2000

/** Calls `report` every few seconds with what the port still waits for, until `signal` aborts. */
export async function reportProgress(
  socketPath: string,
  label: string,
  by: string,
  signal: AbortSignal,
  report: (line: string) => void,
): Promise<void> {
  while (!signal.aborted) {
    await delay(INTERVAL_MS, undefined, { signal }).catch(() => {})
    const outcome = await sendCommand(socketPath, 'status', { argument: null, by }, STATUS_TIMEOUT_MS)
    const port = outcome.is === 'reply' ? statusSchema.safeParse(outcome.reply).data?.ports[label] : undefined
    if (port !== undefined && !signal.aborted) report(`${label} waits for ${describePending(port)}`)
  }
}
