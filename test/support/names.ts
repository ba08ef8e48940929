// Generated names for property tests, and their sort order.
import fc from 'fast-check'

/** Compares by code point, which is the order of UTF-8 bytes. `<` sorts astral characters before U+FFFF. */
export const compareCodePoints = (a: string, b: string): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b))

const characters = [
  'a',
  'A',
  'á',
  'b',
  '!',
  '\\',
  '%',
  '_',
  '+',
  '&',
  '=',
  '#',
  ' ',
  "'",
  '\uffff',
  '\u{1f600}',
]

/** Short names of characters with a meaning in URLs, SQL or filters. Equal names are frequent. */
export const names: fc.Arbitrary<string> = fc
  .string({ unit: fc.constantFrom(...characters), minLength: 1, maxLength: 3 })
  .filter(name => name.trim() !== '')
