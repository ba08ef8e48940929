// The guards that give results of statements their types.
import test from 'ava'
import { modifiedOf, rowsOf } from '../../../src/database/results.ts'

const header = { insertId: 7, affectedRows: 2, warningStatus: 0 }
const others = [null, 1, 'text', true]

test('results: a query has rows, and a statement that modifies rows has their number', t => {
  t.deepEqual(rowsOf([]), [])
  t.deepEqual(rowsOf([{ id: 1 }]), [{ id: 1 }])
  for (const other of [...others, undefined, header, [1], [null], [[]]])
    t.throws(() => rowsOf(other), { instanceOf: TypeError })
  t.deepEqual(modifiedOf(header), { insertId: 7, affectedRows: 2 })
  t.deepEqual(modifiedOf({ ...header, insertId: '9007199254740993' }), {
    insertId: 9_007_199_254_740_992,
    affectedRows: 2,
  })
  t.deepEqual(modifiedOf([{ id: 1 }]), { insertId: 0, affectedRows: 1, returned: [{ id: 1 }] })
  for (const other of [...others, undefined, {}, { insertId: 7 }, { affectedRows: '2', insertId: 7 }, [1]])
    t.throws(() => modifiedOf(other), { instanceOf: TypeError })
})
