// A heartbeat of a worker that has done nothing yet.
import type { Heartbeat } from '../../src/core/messages.ts'

export const emptyHeartbeat: Heartbeat = {
  type: 'heartbeat',
  appliedRevision: 0,
  ports: {},
  traffic: {},
  routes: {},
  lagMs: 0,
  lagP99Ms: 0,
  cache: { hits: 0, misses: 0, state: 'none' },
  pool: { used: 0, free: 0, waiting: 0, max: 0 },
  rssBytes: 0,
}
