// The end of a connection over real sockets: the client gets its responses, whatever it still sends or no longer sends.
import test from 'ava'
import { answer, get, post, startDataPort as start } from '../../support/data-port.ts'
import { until } from '../../support/until.ts'

const megabytes = 8

for (const protocol of ['http', 'https'] as const) {
  test(`${protocol}: drain: a client that sends its whole body before it reads gets an early response`, async t => {
    const { port, open } = await start(t, {
      protocol,
      listener: (_request, response) => answer(response),
    })
    port.setState('draining')
    for (let round = 0; round < 5; round++) {
      const client = await open()
      client.socket.pause()
      const body = Buffer.alloc(megabytes * 1_000_000)
      client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`)
      await new Promise<void>((resolve, reject) =>
        client.socket.write(body, error => (error ? reject(error) : resolve())),
      )
      client.socket.resume()
      t.regex(await client.answer(), /^HTTP\/1.1 200 OK\r\n.*Connection: close\r\n/s)
      await client.closed
    }
    await until(() => port.report().connections === 0)
  })

  test(`${protocol}: drain: what follows an early response is not served`, async t => {
    let served = 0
    const { port, open } = await start(t, {
      protocol,
      listener(_request, response) {
        served++
        answer(response)
      },
    })
    port.setState('draining')
    const client = await open()
    client.write(post)
    t.regex(await client.answer(), /Connection: close/)
    client.write(`body${get}`)
    await client.closed
    t.is(client.text(), '')
    t.is(served, 1)
  })
}
