// A linearizability checker for registers. Each register has one writer, which writes the versions 1, 2, 3 … in
// sequence, and any number of readers.

/** A completed read or write. `began` and `ended` are ticks of one logical clock that all clients share. */
export interface Operation {
  readonly register: string
  readonly kind: 'write' | 'read'
  readonly version: number
  readonly began: number
  readonly ended: number
}

/**
 * Returns, for each operation, the lowest version that it may observe: the highest version of all operations that
 * ended before it began.
 */
function lowestVersions(operations: readonly Operation[]): Map<Operation, number> {
  const byEnd = operations.toSorted((a, b) => a.ended - b.ended).values()
  const lowest = new Map<Operation, number>()
  let next = byEnd.next()
  let newest = 0
  for (const operation of operations.toSorted((a, b) => a.began - b.began)) {
    for (; !next.done && next.value.ended <= operation.began; next = byEnd.next())
      newest = Math.max(newest, next.value.version)
    lowest.set(operation, newest)
  }
  return lowest
}

/**
 * Checks every read against the operations that ended before it began. A read must return every acknowledged write
 * (read your writes, across all clients) and every version that an earlier read returned (monotonic reads). It must not
 * return a version whose write began after the read ended. With one writer per register, this is linearizability.
 * @returns one message for each violation
 */
export function findViolations(history: readonly Operation[]): string[] {
  const violations: string[] = []
  const registers = new Map<string, Operation[]>()
  for (const operation of history) {
    const operations = registers.get(operation.register)
    if (operations === undefined) registers.set(operation.register, [operation])
    else operations.push(operation)
  }
  for (const [register, operations] of registers) {
    const lowest = lowestVersions(operations)
    const writes = operations.filter(({ kind }) => kind === 'write')
    const writeBegan = new Map(writes.map(({ version, began }) => [version, began]))
    for (const operation of operations) {
      const { kind, version, began, ended } = operation
      if (kind === 'write') continue
      const expected = lowest.get(operation) ?? 0
      const earliest = version === 0 ? 0 : (writeBegan.get(version) ?? Infinity)
      if (version < expected || earliest > ended)
        violations.push(
          `${register}: a read from ${began} to ${ended} returned version ${version}; ` +
            `expected at least ${expected}, and a version whose write had begun`,
        )
    }
  }
  return violations
}
