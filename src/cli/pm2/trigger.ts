// Sends an operator's command through pm2 and waits for its reply. pm2's own trigger is not sufficient: it can
// deliver the reply to another operator's command, it can lose a reply, it waits forever if the app exits, and it has
// no timeout.
import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { promisify } from 'node:util'
import pm2 from 'pm2'
import { z } from 'zod'

/** The pause before a command is sent again; it doubles each time. The service recognises the id and runs it once. */
const RESEND_MS = 1000

const replyEvent = z.object({
  process: z.object({ name: z.string() }),
  data: z.object({ id: z.string(), return: z.looseObject({}) }),
})
const processEvent = z.object({ event: z.string(), process: z.object({ name: z.string() }) })

export type Outcome =
  | { readonly is: 'reply'; readonly reply: Readonly<Record<string, unknown>> }
  /** The app is not running, or exited before it replied. */
  | { readonly is: 'not running' }
  | { readonly is: 'timeout' }

/** Sends `command` to `app` and waits up to `timeoutMs` milliseconds for the reply. Requires a connection to pm2. */
export async function trigger(
  app: string,
  command: string,
  argument: string | null,
  timeoutMs: number,
): Promise<Outcome> {
  const id = randomUUID()
  const bus: Pick<EventEmitter, 'on'> = await promisify(pm2.launchBus.bind(pm2))()
  return new Promise(resolve => {
    setTimeout(resolve, timeoutMs, { is: 'timeout' })
    bus.on('axm:reply', event => {
      const { data: found } = replyEvent.safeParse(event)
      if (found?.process.name === app && found.data.id === id)
        resolve({ is: 'reply', reply: found.data.return })
    })
    bus.on('process:event', event => {
      const { data: found } = processEvent.safeParse(event)
      if (found?.process.name === app && found.event === 'exit') resolve({ is: 'not running' })
    })
    // pm2 accepts subscribers to its bus one by one. If many subscribe at once, the reply can precede the
    // subscription.
    const send = (resendMs: number): void => {
      // The callback's result is not used: pm2 does not match replies to commands.
      pm2.trigger(app, command, argument === null ? `id=${id}` : `${argument} id=${id}`, error => {
        if (error) resolve({ is: 'not running' })
      })
      setTimeout(send, resendMs, 2 * resendMs)
    }
    send(RESEND_MS)
  })
}
