const MAX_SHOWN = 60

/** What a file has, for people: on one line, and not too long for it, whatever it is. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
}
