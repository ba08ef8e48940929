// The pace of a client that asks at a steady interval, as a proxy does for its health checks.
import { setInterval } from 'node:timers/promises'

/** Calls `act` at a steady interval until it returns true. The service sees the interval; nothing is waited for. */
export async function atSteadyInterval(
  everyMs: number,
  act: (index: number) => Promise<boolean>,
): Promise<void> {
  let index = 0
  if (await act(index)) return
  for await (const _ of setInterval(everyMs)) if (await act(++index)) return
}
