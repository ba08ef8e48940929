// Values from outside, as messages show them.

const MAX_CODE_POINTS = 100

/** Returns `text`, truncated to 100 code points and `…`. */
export function shortened(text: string): string {
  // A code point has at most two UTF-16 units.
  const points = [...text.slice(0, 2 * MAX_CODE_POINTS + 1)]
  return points.length > MAX_CODE_POINTS ? `${points.slice(0, MAX_CODE_POINTS).join('')}…` : text
}

/** Returns `text` in quotes, on one line and shortened. */
export const quoted = (text: string): string => JSON.stringify(shortened(text))

/** Replaces control characters: some texts come from files and other machines, and could control the terminal. */
export const printable = (text: string): string => text.replace(/\p{Cc}/gu, '?')
