// Settings of a fleet in simulations.
import type { FleetSettings } from '../../src/supervisor/fleet/plan.ts'

export const fleetSettings: FleetSettings = {
  workers: 3,
  beatMs: 1000,
  bootMs: 30_000,
  silentMs: 10_000,
  retireMs: 32_000,
  bootFailures: 5,
  memoryBytes: 1000,
}
