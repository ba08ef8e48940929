// pm2's custom actions over the IPC channel that pm2 opens. The protocol is implemented here because pm2's own injected
// module swallows errors.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { type Commands, commandNames, type Reply, takesArgument } from './commands.ts'

/** How long the reply to a command with an id is cached, for clients that repeat the command after a lost reply. */
const REPLY_CACHE_MS = 60_000

/** `pm2 trigger` waits forever for a reply that arrives before pm2's own confirmation that the command was sent. */
const MIN_REPLY_DELAY_MS = 50

/** Without a parameter pm2 sends the bare name. */
const trigger = z.union([
  z.string().transform(msg => ({ msg, opts: undefined })),
  z.object({ msg: z.string(), opts: z.string().nullish() }),
])

/**
 * Splits `http id=…` into the argument `http` and the id. pm2 broadcasts every reply; `npm run ops` recognizes its own
 * by this id. The id is not passed to the command.
 */
function takeId(opts: string | null | undefined): { argument: string | null; id: string | undefined } {
  const [all, argument = null, id] = /^(?:(.*) )?id=([0-9a-f-]{36})$/s.exec(opts ?? '') ?? []
  return { argument: all === undefined ? (opts ?? null) : argument, id }
}

/** Registers the commands with pm2 and replies to those that arrive. Has no effect without pm2. */
export function connectPm2(channel: NodeJS.Process, commands: Commands): void {
  // A failed send is ignored: pm2 has exited and no client waits for the reply.
  const send = (message: object): void => void channel.send?.(message, undefined, undefined, () => {})

  for (const name of commandNames) {
    const arity = takesArgument(name) ? 1 : 0
    send({ type: 'axm:action', data: { action_name: name, action_type: 'custom', arity, opts: null } })
  }

  const replies = new Map<string, Promise<Reply>>()
  /** Runs each id once: a repeated command receives the reply of the first run. */
  function runOnce(id: string, command: string, argument: string | null): Promise<Reply> {
    const known = replies.get(id)
    if (known !== undefined) return known
    const reply = commands.run(command, argument, 'pm2')
    replies.set(id, reply)
    reply.then(() => setTimeout(() => replies.delete(id), REPLY_CACHE_MS).unref())
    return reply
  }

  channel.on('message', async message => {
    const { data } = trigger.safeParse(message)
    if (data === undefined || !commandNames.some(name => name === data.msg)) return
    const { argument, id } = takeId(data.opts)
    const reply = id === undefined ? commands.run(data.msg, argument, 'pm2') : runOnce(id, data.msg, argument)
    const [result] = await Promise.all([reply, delay(MIN_REPLY_DELAY_MS)])
    send({ type: 'axm:reply', data: { action_name: data.msg, id, return: result } })
  })
}
