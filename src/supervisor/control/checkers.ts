// Who checks the health of a port, and what each one was told last: so an operator sees that a proxy has noticed.

/** So many are remembered for a port; beyond, those seen longest ago are forgotten. */
const MOST = 64
/** Who has not checked for so long does not check any more. */
const FORGOTTEN_MS = 60_000

export interface Checker {
  /** Its IP address. */
  readonly address: string
  /** When it checked last, ISO 8601. */
  readonly seen: string
  /** The status that it was given. */
  readonly status: number
  /** What HAProxy says of the server, from X-Haproxy-Server-State. */
  readonly server_state: string | null
}

export type Checkers = ReturnType<typeof createCheckers>

export function createCheckers() {
  const byLabel = new Map<string, Map<string, Checker>>()

  return {
    checked(label: string, checker: Checker): void {
      const known = byLabel.get(label) ?? new Map<string, Checker>()
      byLabel.set(label, known)
      // A Map keeps the order of insertion: the one seen longest ago is the first.
      known.delete(checker.address)
      known.set(checker.address, checker)
      const [oldest] = known.keys()
      if (known.size > MOST && oldest !== undefined) known.delete(oldest)
    },

    of(label: string, now: Date): Checker[] {
      const known = [...(byLabel.get(label)?.values() ?? [])]
      return known.filter(({ seen }) => now.getTime() - Date.parse(seen) < FORGOTTEN_MS)
    },
  }
}
