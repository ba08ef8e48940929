// pm2's custom actions over the IPC channel that pm2 opens. The protocol is implemented here because pm2's own injected
// module swallows errors.
import { setTimeout as delay } from 'node:timers/promises'
import * as z from 'zod'
import { commandNames, isCommandName, takesArgument } from './command-names.ts'
import type { Commands } from './commands.ts'

/** `pm2 trigger` waits forever for a reply that arrives before pm2's own confirmation that the command was sent. */
const MIN_REPLY_DELAY_MS = 50

/** Without a parameter pm2 sends the bare name. */
const trigger = z.union([
  z.string().transform(msg => ({ msg, opts: undefined })),
  z.object({ msg: z.string(), opts: z.string().nullish() }),
])

/** Splits `http:refuse by=ada` into argument and operator. pm2 passes a single string and does not name its user. */
function splitParameter(parameter: string): { argument: string | null; by: string } {
  const [, argument = '', by = 'pm2'] = /^(.*?)(?:(?:^|\s+)by=(\S+))?$/s.exec(parameter.trim()) ?? []
  return { argument: argument === '' ? null : argument, by }
}

/** Registers the commands with pm2 and replies to those that arrive. Has no effect without pm2. */
export function connectPm2(commands: Commands): void {
  // A failed send is ignored: pm2 has exited and no client waits for the reply.
  const send = (message: object): void => void process.send?.(message, undefined, undefined, () => {})

  for (const name of commandNames) {
    const arity = takesArgument(name) ? 1 : 0
    send({ type: 'axm:action', data: { action_name: name, action_type: 'custom', arity, opts: null } })
  }

  process.on('message', async message => {
    const { data } = trigger.safeParse(message)
    if (data === undefined || !isCommandName(data.msg)) return
    const parameter = data.opts ?? null
    const { argument, by } = splitParameter(parameter ?? '')
    const [{ reply }] = await Promise.all([commands.run(data.msg, argument, by), delay(MIN_REPLY_DELAY_MS)])
    // pm2 can hand one operator the reply to another, so a reply repeats the parameter as it was given.
    send({ type: 'axm:reply', data: { action_name: data.msg, return: { ...reply, argument: parameter } } })
  })
}
