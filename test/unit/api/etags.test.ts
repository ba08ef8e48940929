// The ETags of pages.
import test from 'ava'
import { createEtags } from '../../../src/api/resources/etags.ts'
import { users } from '../../../src/model/users.ts'

test('etags: that of a page depends on everything that the page shows', t => {
  const { page } = createEtags(users)
  const row = { id: 1, version: 2, generation: 3 }
  const tag = page(1, 10, [row], false)
  const tags = [
    tag,
    page(2, 10, [row], false),
    page(1, 11, [row], false),
    page(1, 10, [], false),
    page(1, 10, [{ ...row, id: 2 }], false),
    page(1, 10, [{ ...row, version: 3 }], false),
    page(1, 10, [row], true),
    page(1, 10, [{ ...row, generation: 4 }], true),
  ]
  t.is(new Set(tags).size, tags.length)
  t.is(page(1, 10, [{ ...row, generation: 4 }], false), tag)
})
