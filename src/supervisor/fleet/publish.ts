// Sends every worker a new revision of the desired state, and waits until each of them acknowledges it.
import { once } from 'node:events'
import type { Handle } from './worker-handle.ts'

/** Timeout of the acknowledgements. A healthy worker replies within a few ms, even on a busy machine. */
const TIMEOUT_MS = 1000

/**
 * Resolves when every worker that has booted has acknowledged the revision with a heartbeat, or has exited. A worker that does
 * not reply in time keeps its last heartbeat.
 * @param send sends a worker its desired state
 */
export async function publishRevision(
  revision: number,
  handles: ReadonlyMap<number, Handle>,
  send: (id: number) => void,
  isBooting: (id: number) => boolean,
): Promise<void> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const replies = [...handles].map(async ([id, handle]) => {
    send(id)
    if (isBooting(id)) return
    const { worker } = handle
    const exit = once(worker, 'exit', { signal }).catch(() => {})
    while ((handle.heartbeat?.appliedRevision ?? 0) < revision && !worker.isDead())
      await Promise.race([once(worker, 'message', { signal }), exit])
  })
  await Promise.allSettled(replies)
}
