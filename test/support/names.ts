// Names for generated tests, and their order.
import fc from 'fast-check'

/** Orders by code point, as UTF-8 bytes do; `<` would put an astral character before U+FFFF. */
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

/** Short names of characters that mean something to URLs, SQL or filters; they collide often. */
export const names: fc.Arbitrary<string> = fc
  .string({ unit: fc.constantFrom(...characters), minLength: 1, maxLength: 3 })
  .filter(name => name.trim() !== '')

/** A filter's value that means exactly `name`: a leading ! or \ is escaped. */
export const escapeFilter = (name: string): string => name.replace(/^[!\\]/, '\\$&')
