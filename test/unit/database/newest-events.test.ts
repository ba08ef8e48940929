// The memory of the newest events: which positions it does not serve, and when it begins anew.
import test from 'ava'
import type { FeedEvent } from '../../../src/database/feed/events.ts'
import { createNewestEvents } from '../../../src/database/feed/newest-events.ts'

const event = (id: number): FeedEvent => ({ id, type: 'user.created', ids: { user_id: id }, text: `${id}` })

test('newest events: positions that have expired are not served from memory', t => {
  const newest = createNewestEvents()
  t.false(newest.add({ head: 3, floor: 0, events: [event(1), event(2), event(3)] }))
  t.false(newest.add({ head: 3, floor: 2, events: [] }))
  t.is(newest.after(1, 10), undefined)
  t.false(newest.add({ head: 4, floor: 3, events: [event(4)] }))
  t.is(newest.after(2, 10), undefined)
})

test('newest events: a position beyond the head, which another process may know, is not served from memory', t => {
  const newest = createNewestEvents()
  newest.add({ head: 1, floor: 0, events: [event(1)] })
  t.deepEqual(newest.after(1, 10), { head: 1, floor: 0, events: [] })
  t.is(newest.after(2, 10), undefined)
  t.true(newest.hasEventAfter(0))
  t.false(newest.hasEventAfter(1))
})

test('newest events: it begins anew after a gap, and if the feed has gone back or its positions have expired', t => {
  for (const portion of [
    { head: 2, floor: 0, events: [] },
    { head: 9, floor: 4, events: [event(9)] },
    { head: 20_000, floor: 0, events: [event(4)] },
  ]) {
    const newest = createNewestEvents()
    t.false(newest.add({ head: 3, floor: 0, events: [event(1), event(2), event(3)] }))
    t.true(newest.add(portion))
    t.is(newest.head(), portion.head)
    t.is(newest.after(portion.head - 1, 10), undefined)
  }
})

test('newest events: the last 10,000 are in memory', t => {
  const newest = createNewestEvents()
  for (let head = 1000; head <= 12_000; head += 1000)
    newest.add({ head, floor: 0, events: Array.from({ length: 1000 }, (_, n) => event(head - 999 + n)) })
  t.is(newest.after(1999, 1), undefined)
  t.deepEqual(newest.after(2000, 1)?.events, [event(2001)])
})
