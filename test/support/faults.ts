// A short form of faults, for assertions.
import type { Fault } from '../../src/core/api-error.ts'

/** Returns `<field or parameter> <code>` for each fault, in order. */
export const codesOf = (faults: readonly Fault[]): string[] =>
  faults.map(fault => `${'field' in fault ? fault.field : fault.parameter} ${fault.code}`)
