// Measures several servers in interleaved rounds: other activity on the machine then affects all of them alike.
import { type Figures, type Load, runWrk } from './wrk.ts'

export interface Rounds {
  readonly count: number
  /** Length of a round. */
  readonly seconds: number
}

const WARM_UP_SECONDS = 2

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const [low = 0, high = low] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]]
  return (low + high) / 2
}

/** A load of one server in all rounds. `burst`: the connections of the warm-up, by default as many as later. */
type RepeatedLoad = Omit<Load, 'seconds'> & { readonly burst?: number | undefined }

/**
 * Warms up all servers, then applies each load once per round.
 * @param run applies a load
 * @returns the medians, in the order of `loads`
 */
export async function measureInterleaved(
  loads: readonly RepeatedLoad[],
  { count, seconds }: Rounds,
  signal: AbortSignal,
  run: (load: Load, signal: AbortSignal) => Promise<Figures> = runWrk,
): Promise<Figures[]> {
  const warmUpSeconds = Math.min(WARM_UP_SECONDS, seconds)
  for (const { burst, ...load } of loads)
    await run({ ...load, connections: burst ?? load.connections, seconds: warmUpSeconds }, signal)
  const all: Figures[][] = loads.map(() => [])
  for (let round = 0; round < count; round++)
    for (const [index, load] of loads.entries()) all[index]?.push(await run({ ...load, seconds }, signal))
  return all.map(figures => ({
    requestsPerSecond: median(figures.map(one => one.requestsPerSecond)),
    p50Ms: median(figures.map(one => one.p50Ms)),
    p99Ms: median(figures.map(one => one.p99Ms)),
  }))
}
