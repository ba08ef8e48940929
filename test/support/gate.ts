// A promise that a test resolves.

/** Returns a promise that is pending until `open` is called. */
export function createGate() {
  let open = (): void => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open }
}
