// How the body of a request arrives that is sent in many small fragments.
import type { ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import { answer, get, startDataPort } from '../../support/data-port.ts'
import { until } from '../../support/until.ts'

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** Sends a body in chunks. @returns the fragments that arrive @param onFragment is called for each of them */
async function fragmentsOf(t: ExecutionContext, texts: readonly string[], onFragment = () => {}) {
  const fragments: Buffer[] = []
  const { open } = await startDataPort(t, {
    listener(request, response) {
      request.on('data', (fragment: Buffer) => fragments.push(fragment))
      request.on('data', onFragment).on('end', () => answer(response))
    },
  })
  const client = await open()
  const chunks = texts.map(chunk).join('')
  t.regex(
    await client.ask(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`),
    /^HTTP\/1.1 200/,
  )
  // Their content must stay as it has arrived.
  return fragments.map(fragment => fragment.toString('latin1'))
}

test('body: many fragments of one byte are joined', async t => {
  const digits = Array.from({ length: 100_000 }, (_, at) => `${at % 10}`)
  const fragments = await fragmentsOf(t, digits)
  t.is(fragments.join(''), digits.join(''))
  t.true(fragments.length < 100, `${fragments.length} fragments`)
})

test('body: small and large fragments keep their order', async t => {
  const texts = Array.from({ length: 200 }, (_, at) => `${at} `.repeat(at % 20 === 0 ? 3000 : 1 + (at % 3)))
  t.is((await fragmentsOf(t, texts)).join(''), texts.join(''))
})

test('body: a few fragments arrive as they are sent', async t => {
  t.deepEqual(await fragmentsOf(t, ['a', 'b', 'c']), ['a', 'b', 'c'])
})

test('body: the event loop turns while many fragments of one byte arrive', async t => {
  let turn = 0
  const next = () => {
    turn++
    immediate = setImmediate(next)
  }
  let immediate = setImmediate(next)
  t.teardown(() => clearImmediate(immediate))
  const turns = new Set<number>()
  // Node.js reads 64 KiB at once, which are 11,000 chunks.
  const fragments = await fragmentsOf(t, new Array<string>(200_000).fill('a'), () => turns.add(turn))
  t.is(fragments.join('').length, 200_000)
  t.true(turns.size > 15, `${turns.size} turns`)
})

test('body: several of many fragments that arrive at once are all read', async t => {
  const { open } = await startDataPort(t)
  const clients = await Promise.all([open(), open(), open()])
  for (const client of clients)
    client.write(
      `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('a').repeat(20_000)}0\r\n\r\n`,
    )
  for (const client of clients) t.regex(await client.answer(), /^HTTP\/1.1 200/)
})

test('body: of many fragments that nothing reads, the rest is dropped after the response', async t => {
  const responses: ServerResponse[] = []
  const { open } = await startDataPort(t, { listener: (_request, response) => responses.push(response) })
  const client = await open()
  client.write(
    `GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('a').repeat(300_000)}0\r\n\r\n${get}`,
  )
  for (let due = 0; due < 2; due++) {
    await until(() => responses.length > due)
    // The fragments of one read have arrived.
    await nextTurn()
    await nextTurn()
    for (const response of responses.slice(due)) answer(response)
    t.regex(await client.answer(), /^HTTP\/1.1 200/)
  }
})
