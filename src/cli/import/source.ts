// People and the groups they are in, as every format of file gives them.

interface Entry {
  /** Where it ends in the file, counted from 1. */
  readonly line: number
  /** How much of the file is read with it, 0 to 1. */
  readonly share: number
}

export interface Person extends Entry {
  readonly first_name: string
  readonly last_name: string
  /** By name. */
  readonly groups: readonly string[]
}

/** What stands where a person should, and cannot be read as one. */
export interface InvalidRow extends Entry {
  readonly fault: string
}

export interface Source {
  /** Groups that the file names beside those of its people. */
  readonly groups: readonly string[]
  readonly people: Iterable<Person | InvalidRow> | AsyncIterable<Person | InvalidRow>
}

const MAX_SHOWN = 60

/** What a file has, for people: on one line, and not too long for it, whatever it is. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
}
