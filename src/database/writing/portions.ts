// The number of memberships that the transactions of a deletion remove.

/** After the first try, this many more have a whole portion. */
const WHOLE_RETRIES = 2
/** How often a portion is halved at most. */
const MAX_HALVINGS = 7

export type Portions = ReturnType<typeof createPortions>

/**
 * On a cluster, a large portion conflicts with each write of one of its members through another node, and so with every try
 * under load. Portions therefore halve with each try after the first ones, and double with each success.
 */
export function createPortions(maxRows: number) {
  let tries = 0

  return {
    /** Returns the size for another try. */
    begin(): number {
      const halvings = Math.min(MAX_HALVINGS, Math.max(0, tries - WHOLE_RETRIES))
      tries++
      return Math.ceil(maxRows / 2 ** halvings)
    },
    /** The try has met a lock, which a smaller portion would meet as well. */
    onLocked(): void {
      tries--
    },
    onStored(): void {
      tries = Math.max(0, Math.min(tries, WHOLE_RETRIES + MAX_HALVINGS + 1) - 2)
    },
  }
}
