// The one place where the tests poll: for conditions that no event announces.
import { setTimeout as delay } from 'node:timers/promises'

interface Options {
  /** Shorter than AVA's timeout of a test by default, so that the error names the condition. */
  readonly withinMs?: number | undefined
  /** The pause between two attempts. */
  readonly everyMs?: number
  /** What the error says; by default the source text of the condition. */
  readonly describe?: () => string
}

/**
 * Evaluates `condition` until its value is neither false nor undefined.
 * @returns the value
 * @throws Error that describes the condition after `withinMs` milliseconds
 */
export async function until<T>(
  condition: () => T | false | undefined | Promise<T | false | undefined>,
  { withinMs = 60_000, everyMs = 10, describe = () => String(condition) }: Options = {},
): Promise<T> {
  const deadlineMs = performance.now() + withinMs
  for (;;) {
    const value = await condition()
    if (value !== false && value !== undefined) return value
    if (performance.now() > deadlineMs)
      throw new Error(`condition not fulfilled within ${withinMs} ms: ${describe()}`)
    await delay(everyMs)
  }
}
