// pm2's custom actions over the IPC channel that it opens, spoken by hand: its injected module swallows errors.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { type Commands, commandNames, type Reply, takesTarget } from './commands.ts'

/** How long the reply to a command with an id is kept, for who asks again because it has not come to them. */
const KEPT_MS = 60_000

/** `pm2 trigger` waits forever for a reply that comes before pm2 itself has told it that the command was sent. */
const REPLY_AFTER_MS = 50

/** Without a parameter pm2 sends the bare name. */
const trigger = z.union([
  z.string().transform(msg => ({ msg, opts: undefined })),
  z.object({ msg: z.string(), opts: z.string().nullish() }),
])

/**
 * `http id=…` → argument `http`, and the id: with it `npm run ops` knows its own reply among those that pm2 hands to
 * everybody. It is nobody else's business.
 */
function takeId(opts: string | null | undefined): { argument: string | null; id: string | undefined } {
  const [all, argument = null, id] = /^(?:(.*) )?id=([0-9a-f-]{36})$/s.exec(opts ?? '') ?? []
  return { argument: all === undefined ? (opts ?? null) : argument, id }
}

/** Makes the commands known to pm2, and answers those that come in. Without pm2 it does nothing. */
export function connectPm2(channel: NodeJS.Process, commands: Commands): void {
  // pm2 may be gone when the answer is ready: then nobody waits for it.
  const send = (message: object): void => void channel.send?.(message, undefined, undefined, () => {})

  for (const name of commandNames) {
    const arity = takesTarget(name) ? 1 : 0
    send({ type: 'axm:action', data: { action_name: name, action_type: 'custom', arity, opts: null } })
  }

  const replies = new Map<string, Promise<Reply>>()
  /** What comes again with its id is the same command, which is not run twice. */
  function runOnce(id: string, command: string, argument: string | null): Promise<Reply> {
    const known = replies.get(id)
    if (known !== undefined) return known
    const reply = commands.run(command, argument, 'pm2')
    replies.set(id, reply)
    reply.then(() => setTimeout(() => replies.delete(id), KEPT_MS).unref())
    return reply
  }

  channel.on('message', async message => {
    const { data } = trigger.safeParse(message)
    if (data === undefined || !commandNames.some(name => name === data.msg)) return
    const { argument, id } = takeId(data.opts)
    const reply = id === undefined ? commands.run(data.msg, argument, 'pm2') : runOnce(id, data.msg, argument)
    const [answer] = await Promise.all([reply, delay(REPLY_AFTER_MS)])
    send({ type: 'axm:reply', data: { action_name: data.msg, id, return: answer } })
  })
}
