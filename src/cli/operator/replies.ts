// The parts of the replies that are shown on a terminal. A field that a supervisor of another version lacks is optional.
import { z } from 'zod'

const portReply = z.object({
  port: z.number(),
  control_port: z.number(),
  state: z.string(),
  mode: z.string().nullable(),
  since: z.string(),
  by: z.string(),
  connections: z.number(),
  in_flight: z.number(),
  checkers: z.array(
    z.object({
      address: z.string(),
      seen: z.string(),
      status: z.number(),
      server_state: z.string().nullable(),
    }),
  ),
})
export type Port = z.output<typeof portReply>
/** By label. */
export type Ports = Readonly<Record<string, Port>>

const worker = z.object({
  pid: z.number().optional(),
  state: z.string(),
  started: z.string(),
  in_flight: z.number(),
  lag_ms: z.number(),
  memory_bytes: z.number().optional(),
})
export type Worker = z.output<typeof worker>

export const statusReply = z.object({
  node: z.string().optional(),
  version: z.string().optional(),
  started: z.string().optional(),
  ports: z.record(z.string(), portReply),
  workers: z.array(worker),
  redis: z.string(),
})

export const changeReply = portReply.extend({ changed: z.boolean() })
export const waitReply = portReply.extend({ ended: z.enum(['drained', 'deadline']) })
export const reloadReply = z.object({ workers: z.array(worker) })
/** By label. */
export const certificatesReply = z.record(
  z.string(),
  z.object({ subject: z.string(), valid_to: z.string(), fingerprint: z.string() }),
)
export const levelReply = z.object({ level: z.string() })
