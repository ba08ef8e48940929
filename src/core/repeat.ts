// Runs a task again and again.

/**
 * Runs `task` now, and again `everyMs` after each end. The timer does not keep the process alive.
 * @param onError is called with the error of a run that rejects; the task is repeated all the same
 * @returns a promise that resolves after the first run
 */
export async function repeat(
  everyMs: number,
  task: () => Promise<unknown>,
  onError: (error: unknown) => void,
): Promise<void> {
  await task().catch(onError)
  setTimeout(() => repeat(everyMs, task, onError), everyMs).unref()
}
