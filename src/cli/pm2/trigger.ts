// Sends an operator's command through pm2 and waits for the reply to it: pm2 can hand one operator another's reply,
// loses it on its way, waits forever for an app that died, and cannot be told how long to wait.
import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { promisify } from 'node:util'
import pm2 from 'pm2'
import { z } from 'zod'

/** Until a command is sent again, and twice as long the next time. The service runs it once: it knows the id. */
const AGAIN_MS = 1000

const replyEvent = z.object({
  process: z.object({ name: z.string() }),
  data: z.object({ id: z.string(), return: z.looseObject({}) }),
})
const processEvent = z.object({ event: z.string(), process: z.object({ name: z.string() }) })

export type Outcome =
  | { readonly is: 'reply'; readonly reply: Readonly<Record<string, unknown>> }
  /** It does not run, or ended before it replied. */
  | { readonly is: 'not running' }
  | { readonly is: 'time-out' }

/** Expects to be connected to pm2. */
export async function trigger(
  app: string,
  command: string,
  argument: string | null,
  timeoutMs: number,
): Promise<Outcome> {
  const id = randomUUID()
  const bus: Pick<EventEmitter, 'on'> = await promisify(pm2.launchBus.bind(pm2))()
  return new Promise(resolve => {
    setTimeout(resolve, timeoutMs, { is: 'time-out' })
    bus.on('axm:reply', event => {
      const { data: found } = replyEvent.safeParse(event)
      if (found?.process.name === app && found.data.id === id)
        resolve({ is: 'reply', reply: found.data.return })
    })
    bus.on('process:event', event => {
      const { data: found } = processEvent.safeParse(event)
      if (found?.process.name === app && found.event === 'exit') resolve({ is: 'not running' })
    })
    // pm2 takes the listeners to its bus one by one: where many come at once, a reply may be there before its listener.
    const send = (againMs: number): void => {
      // Its own reading of the replies is not used.
      pm2.trigger(app, command, argument === null ? `id=${id}` : `${argument} id=${id}`, error => {
        if (error) resolve({ is: 'not running' })
      })
      setTimeout(send, againMs, 2 * againMs)
    }
    send(AGAIN_MS)
  })
}
