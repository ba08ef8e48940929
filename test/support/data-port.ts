// A data port in this process, without database and supervisor, and raw connections to it.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { ExecutionContext } from 'ava'
import { pino } from 'pino'
import { generate } from 'selfsigned'
import { bind } from '../../src/core/listen.ts'
import type { KeyPair, PortReport } from '../../src/core/messages.ts'
import { createDataPort, type DataPort, type DataPortOptions } from '../../src/listener/data-port.ts'
import { createRequestLog, type RequestLog } from '../../src/listener/request-log.ts'
import { claimPorts } from './ports.ts'
import { connect, type Raw, type RawOptions } from './raw.ts'
import { until } from './until.ts'

export const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
/** The head of a request whose body has four bytes. */
export const post = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n'
/** Longer than the timeout of a test: this limit never takes effect. */
export const never = 600_000

type Settings = DataPortOptions['config']

const defaults: Settings = {
  host: '127.0.0.1',
  limits: {
    urlBytes: 8192,
    headerBytes: 16_384,
    headers: 100,
    connections: 100,
    unreadBytes: 1_000_000,
    waitingBytes: 10_000_000,
  },
  timeouts: { headersMs: 15_000, requestMs: 60_000, keepAliveMs: 75_000 },
  drain: { mode: '404', delayMs: 0, idleMs: 1000, quietMs: 0, deadlineMs: 1500 },
  proxies: { trusted: [] },
}

export async function makeKeyPair(name: string): Promise<KeyPair> {
  const { cert, private: key } = await generate([{ name: 'commonName', value: name }], { keyType: 'ec' })
  return { certificate: cert, key }
}
/** The certificate with which every port begins. */
export const keyPair = await makeKeyPair('one.test')
/** The TLS session ticket keys of every port. */
export const ticketKeys = Buffer.alloc(48, 1)

export function answer(response: ServerResponse): void {
  response.setHeader('Content-Length', 2).end('ok')
}

/** Responds after the body has arrived, as the application does. */
export const echo: RequestListener = (request, response) => {
  request.resume().on('end', () => answer(response))
}

/** Holds the responses of its listener until the test answers them. */
export function holdResponses() {
  const held: ServerResponse[] = []
  return {
    held,
    listener: (_request: IncomingMessage, response: ServerResponse) => void held.push(response),
    /** Answers those that are held, at least one. */
    async answerHeld(): Promise<void> {
      await until(() => held.length > 0)
      for (const response of held.splice(0)) answer(response)
    },
  }
}

interface RequestLine {
  readonly status?: number
  readonly refused?: string
  readonly client?: string
}

/** A request log whose lines the test reads. */
export function collectRequestLog() {
  const lines: RequestLine[] = []
  const output = { write: (line: string) => void lines.push(JSON.parse(line)) }
  return { lines, requestLog: createRequestLog(pino({ level: 'info' }), output, 'full') }
}

export interface Overrides {
  readonly host?: string
  readonly limits?: Partial<Settings['limits']>
  readonly timeouts?: Partial<Settings['timeouts']>
  readonly drain?: Partial<Settings['drain']>
  /** The addresses of proxies. If there are any, each connection begins with a PROXY header. */
  readonly proxies?: readonly string[]
  readonly requestLog?: RequestLog
}

/** Returns a data port that does not listen yet. */
export function createTestPort(
  number: number,
  protocol: 'http' | 'https',
  listener: RequestListener,
  { host = defaults.host, limits, timeouts, drain, proxies = [], requestLog }: Overrides = {},
) {
  return createDataPort({
    port: { label: 'data', port: number, protocol, proxyProtocol: proxies.length > 0 },
    config: {
      ...defaults,
      host,
      limits: { ...defaults.limits, ...limits },
      timeouts: { ...defaults.timeouts, ...timeouts },
      drain: { ...defaults.drain, ...drain },
      proxies: { trusted: [...proxies] },
    },
    requestSocket: async () => (await bind({ host, port: number }, 'data port data')).handle,
    listener,
    ...(protocol === 'https' && { tls: { keyPair, ticketKeys } }),
    requestLog,
  })
}

/** Returns the counts of a port's report, without what depends on the time. */
export function countsOf(port: DataPort): Pick<PortReport, 'state' | 'connections' | 'active' | 'inFlight'> {
  const { state, connections, active, inFlight } = port.report()
  return { state, connections, active, inFlight }
}

interface Options extends Overrides {
  protocol?: 'http' | 'https'
  listener?: RequestListener
}

/** Opens a data port, and closes it and its clients after the test. */
export async function startDataPort(t: ExecutionContext, options: Options = {}) {
  const { protocol = 'http', listener = echo, ...overrides } = options
  const claim = await claimPorts()
  const port = createTestPort(claim.first, protocol, listener, overrides)
  await port.listen()
  const clients: Raw[] = []
  t.teardown(async () => {
    for (const { socket } of clients) socket.destroy()
    port.setState('closing')
    await port.closed
    await claim.release()
  })
  return {
    port,
    number: claim.first,
    async open(options: RawOptions = { tls: protocol === 'https' }): Promise<Raw> {
      const client = await connect(claim.first, options)
      clients.push(client)
      return client
    },
  }
}
