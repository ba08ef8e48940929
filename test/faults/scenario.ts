// What the fault scenarios get.
import type { RestartableServer } from './restartable-server.ts'
import type { Scenario as ScenarioOf } from './run-scenarios.ts'

export interface ScenarioContext {
  /** Run the shorter form that CI uses. */
  readonly short: boolean
  /** Flushes every commit to disk, as in production. */
  readonly mysql: RestartableServer
  readonly redis: RestartableServer
}

export type Scenario = ScenarioOf<ScenarioContext>
