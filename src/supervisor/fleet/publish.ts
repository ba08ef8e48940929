// What a worker gets of the desired state, and the wait until every worker has applied a new revision.
import { once } from 'node:events'
import type { DataSocket } from '../../core/listen.ts'
import type { DesiredState } from '../../core/messages.ts'
import type { MaxActive } from './balance.ts'
import type { FleetState } from './fleet-state.ts'
import type { Handle } from './worker-handle.ts'

/** Timeout of the acknowledgements. A healthy worker replies within a few ms, even on a busy machine. */
const TIMEOUT_MS = 1000

/**
 * Returns the desired state of one worker. Every port of a retiring worker is closing.
 * @param sockets of the data ports, by label
 * @param maxActive by label
 */
export function desiredOf(
  desired: DesiredState,
  { workers, stop }: Pick<FleetState, 'workers' | 'stop'>,
  id: number,
  sockets: ReadonlyMap<string, DataSocket>,
  maxActive: MaxActive = {},
): DesiredState {
  const isRetiring = workers.some(worker => worker.id === id && worker.state === 'retiring')
  const ports = Object.entries(desired.ports).map(([label, port]) => {
    const own = isRetiring
      ? { state: 'closing' as const, emptiesQueue: stop !== undefined && !sockets.get(label)?.isInherited }
      : { maxActive: maxActive[label] }
    return [label, { ...port, ...own }] as const
  })
  return { ...desired, ports: Object.fromEntries(ports) }
}

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
