// What clients saw of registers, and whether it can have been: each register has one writer, who writes 1, 2, 3 … one
// after the other, and any number of readers. `began` and `ended` are ticks of one clock that all clients share.

export interface Seen {
  readonly register: string
  readonly kind: 'write' | 'read'
  readonly version: number
  readonly began: number
  readonly ended: number
}

/** What each of `events` had to show at least, in their order: the newest of what was over before it began. */
function floors(events: readonly Seen[]): Map<Seen, number> {
  const byEnd = events.toSorted((a, b) => a.ended - b.ended).values()
  const least = new Map<Seen, number>()
  let next = byEnd.next()
  let newest = 0
  for (const event of events.toSorted((a, b) => a.began - b.began)) {
    for (; !next.done && next.value.ended <= event.began; next = byEnd.next())
      newest = Math.max(newest, next.value.version)
    least.set(event, newest)
  }
  return least
}

/**
 * Holds every read against everything that was over before it began: what was acknowledged must be seen (read your
 * writes, and everybody else's), and what was seen is never unseen (monotonic reads); nor is anything seen before its
 * writing began. With one writer a register, that is linearizability.
 * @returns a sentence for each impossible read
 */
export function impossibleReads(history: readonly Seen[]): string[] {
  const impossible: string[] = []
  const registers = new Map<string, Seen[]>()
  for (const event of history) {
    const events = registers.get(event.register)
    if (events === undefined) registers.set(event.register, [event])
    else events.push(event)
  }
  for (const [register, events] of registers) {
    const least = floors(events)
    const writes = events.filter(({ kind }) => kind === 'write')
    const begun = new Map(writes.map(({ version, began }) => [version, began]))
    for (const event of events) {
      const { kind, version, began, ended } = event
      if (kind === 'write') continue
      const due = least.get(event) ?? 0
      const from = version === 0 ? 0 : (begun.get(version) ?? Infinity)
      if (version < due || from > ended)
        impossible.push(`${register} was seen at ${version} from ${began} to ${ended}, ${due} was due`)
    }
  }
  return impossible
}
