// What the operators' commands reply when they succeed, beside `command` and `argument`. commands.ts builds the replies, and
// `npm run ops` parses them with these schemas, because the supervisor that replies can be of another version.
import * as z from 'zod'
import type { CommandName } from './command-names.ts'
import { portSchema, statusSchema } from './control-ports/status.ts'

/** `changed`: false if the port was in the state already. */
const change = portSchema.extend({ changed: z.boolean() })

const wait = z.discriminatedUnion('ended', [
  portSchema.extend({ ended: z.literal('drained') }),
  portSchema.extend({
    ended: z.literal('deadline'),
    /** The addresses of the checkers that have not noticed the maintenance. */
    waiting_for: z.array(z.string()),
    /** The requests that still arrive, and the addresses that send most of them. */
    requests_per_second: z.number(),
    addresses: z.array(z.string()),
  }),
])

/** By label. */
const certificates = z.record(
  z.string(),
  z.object({ subject: z.string(), valid_to: z.string(), fingerprint: z.string() }),
)

const diagnosis = z.object({ pid: z.int(), path: z.string() })

export const replySchemas = {
  drain: change,
  wait,
  resume: change,
  status: statusSchema,
  reload: statusSchema.pick({ workers: true }),
  'reload-certificates': certificates,
  'log-level': z.object({ level: z.string() }),
  'heap-snapshot': diagnosis,
  'cpu-profile': diagnosis,
} satisfies Readonly<Record<CommandName, z.ZodType>>

export type ReplyTo<Name extends CommandName> = z.output<(typeof replySchemas)[Name]>
