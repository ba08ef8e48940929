// The content of an import file, independent of its format: users and their groups.

interface Entry {
  /** The line on which the entry ends, counted from 1. */
  readonly line: number
  /** The share of the file that has been read with this entry, from 0 to 1. */
  readonly share: number
}

export interface Person extends Entry {
  readonly first_name: string
  readonly last_name: string
  /** The names of the groups. */
  readonly groups: readonly string[]
}

/** An entry that cannot be read as a user. */
export interface InvalidRow extends Entry {
  readonly fault: string
}

export interface Source {
  /** Groups that the file lists in addition to those of its users. */
  readonly groups: readonly string[]
  readonly people: Iterable<Person | InvalidRow> | AsyncIterable<Person | InvalidRow>
}

const MAX_SHOWN = 60

/** Formats a value of the file for a message: quoted, on one line and shortened to 60 characters. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
}
