// The pace of a client that asks at a steady interval, as a proxy does for its health checks.
import { setInterval } from 'node:timers/promises'

/**
 * Calls `act` at a steady interval. The service sees the interval; nothing is waited for.
 * @param times at least 2
 * @param act can return true to end the calls
 */
export async function atSteadyInterval(
  everyMs: number,
  times: number,
  act: (index: number) => Promise<unknown>,
): Promise<void> {
  let index = 0
  await act(index)
  for await (const _ of setInterval(everyMs)) {
    const isOver = await act(++index)
    if (isOver === true || index === times - 1) return
  }
}
