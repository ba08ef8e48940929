// Remembers the clients that check the health of a port and the last response to each. Operators see from it whether a
// proxy has noticed a drain.

/** Limit of checkers per port. Beyond it, the least recently seen one is removed. */
const MAX_CHECKERS = 64
/** A checker is removed this long after its last check. */
const EXPIRY_MS = 60_000

export interface Checker {
  /** IP address. */
  readonly address: string
  /** Time of the last check, ISO 8601. */
  readonly seen: string
  /** HTTP status of the last response. */
  readonly status: number
  /** HAProxy's view of the server, from the header X-Haproxy-Server-State. */
  readonly server_state: string | null
}

export type Checkers = ReturnType<typeof createCheckers>

export function createCheckers() {
  const byLabel = new Map<string, Map<string, Checker>>()

  return {
    record(label: string, checker: Checker): void {
      const known = byLabel.get(label) ?? new Map<string, Checker>()
      byLabel.set(label, known)
      // A Map keeps insertion order, so the least recently seen checker is the first.
      known.delete(checker.address)
      known.set(checker.address, checker)
      const [oldest] = known.keys()
      if (known.size > MAX_CHECKERS && oldest !== undefined) known.delete(oldest)
    },

    list(label: string, now: Date): Checker[] {
      const known = [...(byLabel.get(label)?.values() ?? [])]
      return known.filter(({ seen }) => now.getTime() - Date.parse(seen) < EXPIRY_MS)
    },
  }
}
