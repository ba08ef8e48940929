// What an idle connection keeps in memory.
import type { IncomingMessage, RequestListener } from 'node:http'
import test from 'ava'
import { answer, echo, post, startDataPort } from '../../support/data-port.ts'
import { collectGarbage } from '../../support/garbage.ts'
import { until } from '../../support/until.ts'

const early: RequestListener = (_request, response) => answer(response)

for (const protocol of ['http', 'https'] as const)
  for (const [when, respond] of [['after', echo] as const, ['before', early] as const])
    test(`${protocol}: idle: nothing of a request with a response ${when} its body`, async t => {
      let last: WeakRef<IncomingMessage> | undefined
      const { open } = await startDataPort(t, {
        protocol,
        listener(request, response) {
          last = new WeakRef(request)
          respond(request, response)
        },
      })
      const client = await open()
      for (let round = 0; round < 2; round++) {
        client.write(post)
        if (when === 'before') await client.answer()
        client.write('body')
        if (when === 'after') await client.answer()
        await until(() => {
          collectGarbage()
          return last?.deref() === undefined
        })
      }
      t.false(client.isClosed())
    })
