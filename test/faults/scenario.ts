// The interface of a fault scenario: it injects a fault, checks what the service guarantees, and returns a summary.
import type { RestartableServer } from './restartable-server.ts'

export interface ScenarioContext {
  /** Run the shorter form that CI uses. */
  readonly short: boolean
  /** Flushes every commit to disk, as in production. */
  readonly mysql: RestartableServer
  readonly redis: RestartableServer
}

export interface Scenario {
  readonly title: string
  /** The scenario has no short form and is skipped by `--short`. */
  readonly longOnly?: true
  /**
   * Runs the scenario.
   * @returns the summary to print
   * @throws Error that names the violated guarantee
   */
  run(context: ScenarioContext): Promise<string>
}
