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

const dataPort = z.discriminatedUnion(
  'protocol',
  [
    z.strictObject({ label, port: portNumber, protocol: z.literal('http') }),
    z.strictObject({
      label,
      port: portNumber,
      protocol: z.literal('https'),
      certificate: path.nullable().default(null),
      key: path.nullable().default(null),
    }),
  ],
  { error: issue => (issue.code === 'invalid_union' ? 'must be http or https' : undefined) },
)

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
  limits: z.strictObject({
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
  }),
  timeouts: z.strictObject({ headersMs: milliseconds, requestMs: milliseconds, keepAliveMs: milliseconds }),
  drain: z.strictObject({
    mode: z.enum(['404', 'refuse']),
    delayMs: milliseconds,
    idleMs: milliseconds,
    deadlineMs: milliseconds,
  }),
  fleet: z.strictObject({
    scheduling: z.enum(schedulings),
    bootMs: atLeastOne,
    beatMs: atLeastOne,
    silentMs: atLeastOne,
    bootFailures: atLeastOne,
    memoryBytes: atLeastOne,
  }),
  health: z.strictObject({ databaseGraceMs: milliseconds }),
  log: z.strictObject({ level: z.enum(logLevels), requests: z.boolean() }),
})

export type Settings = Readonly<z.output<typeof schema>>

/** What no single setting can say alone: ports that collide, certificates that are missing. */
export function faultsBetween(config: Settings, production: boolean): string[] {
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
    if (port.protocol !== 'https') continue
    if ((port.certificate === null) !== (port.key === null))
      faults.push(`ports: ${port.label} needs certificate and key together`)
    else if (port.certificate === null && production)
      faults.push(`ports: ${port.label} needs a certificate and a key in production`)
  }
  if (config.timeouts.headersMs > config.timeouts.requestMs)
    faults.push('timeouts.headersMs: must not be over timeouts.requestMs, which counts the headers, too')
  if (config.fleet.scheduling === 'reuse-port' && !hasReusePort())
    faults.push(
      `fleet.scheduling: reuse-port needs Node 22.12, this is ${process.versions.node}; there are ${schedulings.join(', ')}`,
    )
  if (config.limits.receivingBytes < config.limits.bodyBytes)
    faults.push(
      'limits.receivingBytes: must not be under limits.bodyBytes, or no such body could be received',
    )
  if (config.fleet.silentMs <= 2 * config.fleet.beatMs)
    faults.push(
      'fleet.silentMs: must be more than twice fleet.beatMs, or a late beat would kill a healthy worker',
    )
  return faults
}
