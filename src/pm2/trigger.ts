// Sends an operator's command through pm2 and waits for the reply to it: pm2 can hand one operator another's reply,
// waits forever for an app that died, and cannot be told how long to wait.
import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { promisify } from 'node:util'
import pm2 from 'pm2'
import { z } from 'zod'

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
    // Its own reading of the replies is not used.
    pm2.trigger(app, command, argument === null ? `id=${id}` : `${argument} id=${id}`, error => {
      if (error) resolve({ is: 'not running' })
    })
  })
}
