// Faults in short forms, for assertions.
import { type Fault, Faults } from '../../src/core/api-error.ts'

/** Returns the result of a validation and the faults that it has listed. */
export function checked<T>(check: (faults: Faults) => T): { values: T; faults: readonly Fault[] } {
  const faults = new Faults()
  const values = check(faults)
  return { values, faults: faults.listed }
}

/** Returns `<field or parameter> <code>` for each fault, in order. */
export const codesOf = (faults: readonly Fault[]): string[] =>
  faults.map(fault => `${'field' in fault ? fault.field : fault.parameter} ${fault.code}`)
