// The schema of the settings, and the checks that involve several settings.
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import * as z from 'zod'
import { hostName, listenHost, network } from './addresses.ts'
import { authSchema } from './auth.ts'
import { databaseUrl } from './database-url.ts'
import { areComparable } from './faults.ts'
import { atLeastOne, limitsSchema } from './limits.ts'
import { redisUrl } from './redis-url.ts'
import { root } from './root.ts'

/** The maximum of a timer of Node.js. */
const milliseconds = z
  .int()
  .min(0)
  .max(2 ** 31 - 1)
/** Timers can add some seconds to it. */
const upToADay = z.int().min(0).max(86_400_000)
/** 100 years: databases cannot subtract any number of seconds from the present. */
const seconds = z.int().min(0).max(3_155_760_000)
const portNumber = z.int().min(1).max(65535)
const path = z
  .string()
  .min(1)
  .transform(file => resolve(root, file))
/** The maximum length of a Unix socket's path in bytes on all supported systems: macOS has 104 with the final NUL. */
export const MAX_SOCKET_PATH = 103
const socketPath = path.refine(file => Buffer.byteLength(file) <= MAX_SOCKET_PATH, {
  error: ({ input }) =>
    `is ${Buffer.byteLength(String(input))} bytes long as an absolute path; the maximum for a Unix socket is ${MAX_SOCKET_PATH}: set a shorter one, or move the folder of the project`,
})
const label = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_.-]*$/,
    'must contain only letters, digits, ".", "-" and "_", and start with a letter or a digit',
  )
  .refine(name => !(name in Object.prototype), 'must not be the name of a property that every object has')
  // The reply to reload-certificates has the certificates by label, beside these.
  .refine(name => !['command', 'argument', 'error'].includes(name), 'must not be command, argument or error')

const invalidWorkers = 'must be "auto" or an integer from 1 to 9999'

// Not a discriminated union: with an unknown protocol, it would skip the checks of the other fields.
const dataPort = z.strictObject({
  label,
  port: portNumber,
  protocol: z.enum(['http', 'https']),
  /** Only for https. */
  certificate: path.nullish(),
  key: path.nullish(),
  /** Whether each connection begins with a PROXY header, which a trusted proxy writes. */
  proxyProtocol: z.boolean().optional(),
})

/** How a health check shows maintenance: it answers 404, or the control port refuses connections. */
export const drainModes = ['404', 'refuse'] as const

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/**
 * Each setting on its own. Paths become absolute, and a missing node name becomes the host name. `config/default.json`
 * contains the defaults.
 */
export const schema = z.strictObject({
  host: listenHost,
  ports: z.array(dataPort).min(1),
  /** Names that clients use for a loopback address. */
  hosts: z.array(hostName),
  control: z.strictObject({
    host: listenHost,
    offset: z.literal([1, 8000]),
    /** The Unix socket for operators' commands. Only the user of the service can reach it. */
    socket: socketPath,
  }),
  workers: z.union(
    [
      z.literal('auto'),
      z.int().min(1, invalidWorkers).max(9999, invalidWorkers),
      z
        .string()
        .regex(/^[1-9][0-9]{0,3}$/, invalidWorkers)
        .transform(Number),
    ],
    invalidWorkers,
  ),
  database: z.strictObject({
    url: databaseUrl.nullable(),
    poolMax: atLeastOne,
    acquireTimeoutMs: upToADay.min(1),
    queryTimeoutMs: milliseconds.min(1),
  }),
  cache: z.strictObject({
    /** One URL for each host. */
    url: redisUrl.nullable(),
    ttlSeconds: seconds.min(1),
    timeoutMs: upToADay.min(1),
  }),
  idempotency: z.strictObject({ keepSeconds: seconds.min(1), removeEveryMs: milliseconds.min(1) }),
  /** How long the change feed keeps events; 0 turns it off. */
  changes: z.strictObject({ keepSeconds: seconds }),
  /** How often the files of the certificates and of the ticket key are read again. */
  certificates: z.strictObject({ readEveryMs: milliseconds.min(1) }),
  tls: z.strictObject({
    /** A file with a secret from which the nodes derive the same keys of TLS session tickets. */
    ticketKeyFile: path.nullable(),
  }),
  stateFile: path,
  /** The name of this node in the log, the status and the metrics. */
  node: z
    .string()
    .min(1)
    .nullable()
    .transform(name => name ?? hostname()),
  limits: limitsSchema,
  timeouts: z
    .strictObject({ headersMs: upToADay.min(1), requestMs: upToADay.min(1), keepAliveMs: upToADay.min(1) })
    .refine(({ headersMs, requestMs }) => headersMs <= requestMs, {
      path: ['headersMs'],
      when: areComparable('headersMs', 'requestMs'),
      error: 'must be at most timeouts.requestMs, which includes the time for the headers',
    }),
  drain: z.strictObject({
    mode: z.enum(drainModes),
    delayMs: upToADay,
    idleMs: milliseconds,
    quietMs: milliseconds,
    deadlineMs: upToADay,
  }),
  fleet: z
    .strictObject({
      bootMs: upToADay.min(1),
      beatMs: upToADay.min(1),
      silentMs: upToADay.min(1),
      bootFailures: atLeastOne,
      memoryBytes: atLeastOne,
    })
    .refine(({ silentMs, beatMs }) => silentMs > 2 * beatMs, {
      path: ['silentMs'],
      when: areComparable('silentMs', 'beatMs'),
      error:
        'must be more than twice fleet.beatMs, so that one late heartbeat does not kill a healthy worker',
    }),
  /** `watchMs`: for how long the first new worker serves beside the old ones. */
  reload: z.strictObject({ watchMs: milliseconds }),
  health: z.strictObject({ databaseGraceMs: milliseconds }),
  auth: authSchema,
  /** `trusted`: those whose reports about a client's address are believed. */
  proxies: z.strictObject({ trusted: z.array(network) }),
  log: z.strictObject({
    level: z.enum(logLevels),
    requests: z.boolean(),
    /** How much of a client's address a line shows; `prefix`: /24 of IPv4, /48 of IPv6. */
    client: z.enum(['full', 'prefix', 'off']),
  }),
})

export type Settings = Readonly<z.output<typeof schema>>

/** The settings of a serving process, which needs a database. */
export const servingSchema = schema.extend({ database: schema.shape.database.extend({ url: databaseUrl }) })

/** The setting that an operator's command needs. */
export const socketSchema = z.object({ control: z.object({ socket: socketPath }) })

/** The settings that `portFaults` checks, even if other settings are invalid. */
export const portsSchema = z.object({
  ports: schema.shape.ports,
  control: z.object(schema.shape.control.pick({ offset: true }).shape),
  proxies: z.object(schema.shape.proxies.shape),
})

/** Returns the errors that involve several settings: colliding ports and labels, missing certificates and proxies. */
export function portFaults(config: z.output<typeof portsSchema>, needsCertificates: boolean): string[] {
  const faults: string[] = []
  const offset = config.control.offset
  const taken = new Map<number, string>()
  const labels = new Set<string>()
  for (const { label, port } of config.ports) {
    if (labels.has(label)) faults.push(`ports: the label ${label} is used twice; labels must be unique`)
    labels.add(label)
    const uses = [
      [port, `data port ${label}`],
      [port + offset, `control port of ${label}`],
    ] as const
    for (const [number, use] of uses) {
      const other = taken.get(number)
      if (other !== undefined) faults.push(`ports: ${number} is used for both the ${other} and the ${use}`)
      if (number > 65535) faults.push(`ports: the ${use} is ${number}; the maximum is 65535`)
      taken.set(number, use)
    }
  }
  for (const port of config.ports) {
    const { certificate = null, key = null } = port
    if ((certificate === null) !== (key === null))
      faults.push(`ports: ${port.label} needs both a certificate and a key, or neither`)
    else if (port.protocol === 'http' && certificate !== null)
      faults.push(`ports: ${port.label} must not have a certificate, because its protocol is http`)
    else if (port.protocol === 'https' && certificate === null && needsCertificates)
      faults.push(`ports: ${port.label} needs a certificate and a key in production`)
    if (port.proxyProtocol === true && config.proxies.trusted.length === 0)
      faults.push(
        `ports: ${port.label} has proxyProtocol, so proxies.trusted must contain the addresses of its proxies`,
      )
  }
  return faults
}
