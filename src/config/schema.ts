// What can be set, and what is wrong with it: each setting alone, and some together.
import { resolve } from 'node:path'
import { z } from 'zod'
import { root } from './root.ts'

const milliseconds = z
  .int()
  .min(0)
  .max(2 ** 31 - 1)
const atLeastOne = z.int().min(1)
const portNumber = z.int().min(1).max(65535)
const path = z
  .string()
  .min(1)
  .transform(file => resolve(root, file))
const label = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]*$/, 'must be letters, digits, dots, - and _')

/** A URL whose scheme is one of `schemes`. Its value is never repeated in a fault: it may carry a password. */
const url = (...schemes: string[]) =>
  z.string().refine(value => URL.canParse(value) && schemes.includes(new URL(value).protocol.slice(0, -1)), {
    error: `must be a URL that starts with ${schemes.map(scheme => `${scheme}://`).join(' or ')}`,
    abort: true,
  })

const databaseUrl = url('mysql').refine(
  value => new URL(value).pathname.length > 1,
  'names no database: mysql://user:password@host:port/database',
)

const workersFault = 'must be "auto" or a positive integer'

// Not a union of protocols: of one that is unknown, it would check nothing else.
const dataPort = z.strictObject({
  label,
  port: portNumber,
  protocol: z.enum(['http', 'https']),
  /** Of https alone. */
  certificate: path.nullish(),
  key: path.nullish(),
})

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/**
 * How connections reach the workers: from one socket that all of them accept from, dealt out by the supervisor, or from a
 * socket for each worker, among which the kernel chooses.
 */
const schedulings = ['shared', 'round-robin', 'reuse-port'] as const
export type Scheduling = (typeof schedulings)[number]

/** `reusePort` came to net.Server.listen() with Node 22.12. */
const hasReusePort = () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 12)
}

/** Each setting alone; paths become absolute. `config/default.json` says what each one is by default. */
export const schema = z.strictObject({
  host: z.string().min(1),
  ports: z.array(dataPort).min(1),
  control: z.strictObject({ host: z.string().min(1), offset: z.literal([1, 8000]) }),
  workers: z.union(
    [
      z.literal('auto'),
      z.int().min(1, workersFault),
      z
        .string()
        .regex(/^[1-9][0-9]{0,3}$/, workersFault)
        .transform(Number),
    ],
    workersFault,
  ),
  database: z.strictObject({
    url: databaseUrl.nullable(),
    poolMax: atLeastOne,
    acquireTimeoutMs: milliseconds,
    queryTimeoutMs: atLeastOne,
  }),
  cache: z.strictObject({
    /** One URL a node: several are a Redis Cluster. */
    url: z.preprocess(
      // The hosts of a cluster stand behind commas; each may repeat the scheme or leave it out.
      value =>
        typeof value === 'string'
          ? value.split(',').map(one => (one.includes('://') ? one : `${value.split('://')[0]}://${one}`))
          : value,
      z.array(url('redis', 'rediss', 'redis+unix')).nullable(),
    ),
    ttlSeconds: atLeastOne,
    timeoutMs: atLeastOne,
  }),
  idempotency: z.strictObject({ keepSeconds: atLeastOne, removeEveryMs: milliseconds.min(1) }),
  stateFile: path,
  limits: z
    .strictObject({
      bodyBytes: atLeastOne,
      batchEntries: atLeastOne,
      recordsPerPage: atLeastOne,
      filters: z.int().min(0),
      membershipsPerUser: atLeastOne,
      urlBytes: z.int().min(64),
      headerBytes: z.int().min(512),
      headers: atLeastOne,
      /** Of each port in each worker; also how many requests may be in flight there. */
      connections: atLeastOne,
      /** How many requests one connection may have in flight. */
      pipelined: atLeastOne,
      /** Of all bodies that a worker is receiving. */
      receivingBytes: atLeastOne,
      /** Of all answers of a port that its clients have not taken yet. */
      unreadBytes: atLeastOne,
    })
    .refine(({ receivingBytes, bodyBytes }) => receivingBytes >= bodyBytes, {
      path: ['receivingBytes'],
      error: 'must not be under limits.bodyBytes, or no such body could be received',
    }),
  timeouts: z
    .strictObject({ headersMs: milliseconds, requestMs: milliseconds, keepAliveMs: milliseconds })
    .refine(({ headersMs, requestMs }) => headersMs <= requestMs, {
      path: ['headersMs'],
      error: 'must not be over timeouts.requestMs, which counts the headers, too',
    }),
  drain: z.strictObject({
    mode: z.enum(['404', 'refuse']),
    delayMs: milliseconds,
    idleMs: milliseconds,
    deadlineMs: milliseconds,
  }),
  fleet: z
    .strictObject({
      scheduling: z
        .enum(schedulings)
        .refine(
          scheduling => scheduling !== 'reuse-port' || hasReusePort(),
          `reuse-port needs Node 22.12, this is ${process.versions.node}; there are ${schedulings.join(', ')}`,
        ),
      bootMs: atLeastOne,
      beatMs: atLeastOne,
      silentMs: atLeastOne,
      bootFailures: atLeastOne,
      memoryBytes: atLeastOne,
    })
    .refine(({ silentMs, beatMs }) => silentMs > 2 * beatMs, {
      path: ['silentMs'],
      error: 'must be more than twice fleet.beatMs, or a late heartbeat would kill a healthy worker',
    }),
  health: z.strictObject({ databaseGraceMs: milliseconds }),
  log: z.strictObject({ level: z.enum(logLevels), requests: z.boolean() }),
})

export type Settings = Readonly<z.output<typeof schema>>

/** With a database, without which nobody can serve. */
export const servingSchema = schema.extend({ database: schema.shape.database.extend({ url: databaseUrl }) })

/** What is looked at together, whatever is wrong with the others. */
export const portsSchema = z.object({ ports: schema.shape.ports, control: schema.shape.control })

/** What no port can say alone: ports that collide, certificates that are missing. */
export function faultsBetween(config: z.output<typeof portsSchema>, production: boolean): string[] {
  const faults: string[] = []
  const offset = config.control.offset
  const taken = new Map<number, string>()
  const labels = new Set<string>()
  for (const { label, port } of config.ports) {
    if (labels.has(label)) faults.push(`ports: the label ${label} is used twice`)
    labels.add(label)
    const uses = [
      [port, `data port ${label}`],
      [port + offset, `control port of ${label}`],
    ] as const
    for (const [number, use] of uses) {
      const other = taken.get(number)
      if (other !== undefined) faults.push(`ports: ${number} would be both ${other} and ${use}`)
      if (number > 65535) faults.push(`ports: ${use} would be ${number}, over 65535`)
      taken.set(number, use)
    }
  }
  for (const port of config.ports) {
    const { certificate = null, key = null } = port
    if ((certificate === null) !== (key === null))
      faults.push(`ports: ${port.label} needs certificate and key together`)
    else if (port.protocol === 'http' && certificate !== null)
      faults.push(`ports: ${port.label} is http, which takes no certificate`)
    else if (port.protocol === 'https' && certificate === null && production)
      faults.push(`ports: ${port.label} needs a certificate and a key in production`)
  }
  return faults
}
