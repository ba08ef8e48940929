// A resource of the tests alone, without relations.
import type { Resource, TextField } from '../../src/model/resource.ts'

/** @param noteRequired when the field `note` is required; `title` always is */
export const booksWith = (maxCodePoints: number, noteRequired: TextField['required']): Resource => ({
  singular: 'book',
  plural: 'books',
  description: 'A book.',
  fields: {
    title: { maxCodePoints, required: 'always', example: 'abc' },
    note: { maxCodePoints, required: noteRequired, example: 'abc' },
  },
  unique: ['title'],
  relations: [],
})
