// A stall of this process: its event loop does not run. It uses no processor time, which other test files need meanwhile.

/** Stalls the event loop of this process for `ms` milliseconds. */
export function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
