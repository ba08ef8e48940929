// Runs scenarios in sequence, and prints a summary of each or the reason of its failure.

/** A scenario injects a fault, checks what the service guarantees, and returns a summary. */
export interface Scenario<Context> {
  readonly title: string
  /** The scenario has no short form and is skipped by `--short`. */
  readonly longOnly?: true
  /**
   * Runs the scenario.
   * @returns the summary to print
   * @throws Error that names the violated guarantee
   */
  run(context: Context): Promise<string>
}

/**
 * Chooses the scenarios with these names; without names, all of them.
 * @throws Error that lists the scenarios if a name is unknown, or names those without a short form
 */
export function chooseScenarios<S extends { longOnly?: true }>(
  scenarios: Readonly<Record<string, S>>,
  names: readonly string[],
  short: boolean,
): S[] {
  const unknown = names.filter(name => !Object.hasOwn(scenarios, name))
  if (unknown.length > 0)
    throw new Error(
      `unknown scenario: ${unknown.join(', ')}; the scenarios are ${Object.keys(scenarios).join(', ')}`,
    )
  const onlyLong = names.filter(name => short && scenarios[name]?.longOnly)
  if (onlyLong.length > 0) throw new Error(`no short form: ${onlyLong.join(', ')}; run it without --short`)
  return Object.entries(scenarios)
    .filter(([name]) => names.length === 0 || names.includes(name))
    .map(([, scenario]) => scenario)
    .filter(({ longOnly }) => !short || !longOnly)
}

/** Runs the scenarios in sequence. @returns whether all passed */
export async function runScenarios<Context>(
  chosen: readonly Scenario<Context>[],
  context: Context,
): Promise<boolean> {
  const reasons: string[] = []
  for (const { title, run } of chosen) {
    const startedMs = performance.now()
    try {
      const summary = await run(context)
      console.log(`  ✔ ${title} (${((performance.now() - startedMs) / 1000).toFixed(0)} s)\n      ${summary}`)
    } catch (error) {
      console.log(`  ✘ ${title}`)
      reasons.push(`${title}\n${error instanceof Error ? error.stack : error}`)
    }
  }
  // Like AVA: the reasons follow a line that ends the list.
  if (reasons.length > 0) console.log(`  ─\n\n  ${reasons.length} tests failed\n\n${reasons.join('\n\n')}`)
  return reasons.length === 0
}
