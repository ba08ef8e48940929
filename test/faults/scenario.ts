// What a scenario is: something is broken on purpose, the promises are checked, and a figure says how it went.
import type { Plug } from './plug.ts'

export interface Conditions {
  /** For CI: the same in less time. */
  readonly short: boolean
  /** Durable, as in production. */
  readonly mysql: Plug
  readonly redis: Plug
}

export interface Scenario {
  readonly title: string
  /** Too slow to have a short form. */
  readonly longOnly?: true
  /** @returns the figure. @throws Error that says which promise was broken */
  run(conditions: Conditions): Promise<string>
}
