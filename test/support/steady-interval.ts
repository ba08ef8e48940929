// The pace of a client that asks at a steady interval, as a proxy does for its health checks.
import { setInterval } from 'node:timers/promises'

/** Calls `act` at a steady interval. The service sees the interval; nothing is waited for. @param times at least 2 */
export async function atSteadyInterval(
  everyMs: number,
  times: number,
  act: (index: number) => Promise<unknown>,
): Promise<void> {
  let index = 0
  await act(index)
  for await (const _ of setInterval(everyMs)) {
    await act(++index)
    if (index === times - 1) return
  }
}
