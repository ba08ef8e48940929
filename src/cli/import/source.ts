// The content of an import file, independent of its format: users and their groups.
import { users } from '../../model/users.ts'

/** The names of the fields that a user has in a file: those that a POST requires. */
export const userFields = Object.keys(users.fields).filter(name => users.fields[name]?.required !== false)

interface Entry {
  /** The line on which it ends in a CSV file, such as `line 2`, or its place in a JSON file, such as `users[0]`. */
  readonly place: string
  /** The share of the file that has been read with this entry, from 0 to 1. */
  readonly share: number
}

export interface Person extends Entry {
  /** The values of the user's fields by name. */
  readonly fields: Readonly<Record<string, string>>
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
  readonly users: Iterable<Person | InvalidRow> | AsyncIterable<Person | InvalidRow>
}

/** Creates the error of a file with other bytes than UTF-8. */
export const notUtf8 = (line: number): Error =>
  new Error(`line ${line}: invalid UTF-8: save the file as UTF-8`)
