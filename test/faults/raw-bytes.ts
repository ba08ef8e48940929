// Scenario: random sequences of raw bytes on data and control ports. A model says which responses each sequence gets.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import type { Status } from '../../src/supervisor/control-ports/status.ts'
import { connect, type Raw } from '../support/raw.ts'
import { ask, type Service } from '../support/service.ts'
import { until } from '../support/until.ts'
import { ID_LENGTH, type Part, requests, unfinished } from './raw-requests.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

/** Clients that send, and those that wait for the service to close their connections. */
const SENDING = 16
const WAITING = 400
/** Of the service. A late request gets its 408 before its connection is idle for too long. */
const timeouts = { headersMs: 2000, requestMs: 3000, keepAliveMs: 5000 }
/** More than all time-outs. */
const CLOSED_MS = 60_000

/** Whether nothing is answered behind these responses. */
const closes = (responses: readonly string[]): boolean => responses.some(one => one.endsWith('close'))

const names = Object.keys(requests)
const sequence = fc.record({
  port: fc.constantFrom('http', 'https', 'control'),
  names: fc.array(
    fc.oneof(
      { weight: 1, arbitrary: fc.constantFrom(...names) },
      // Most others end the connection.
      { weight: 2, arbitrary: fc.constantFrom(...names.filter(name => !closes(requests[name]?.data ?? []))) },
    ),
    { minLength: 1, maxLength: 8 },
  ),
  last: fc.option(fc.constantFrom(...Object.keys(unfinished)), { nil: undefined }),
  /** The lengths of the packets before the last one, or where they end. */
  packets: fc.oneof(
    fc.constantFrom('one', 'at blank lines', 'each request behind its predecessor’s response'),
    fc.array(fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 20_000 })), {
      minLength: 1,
      maxLength: 6,
    }),
  ),
  end: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom('half-close', 'reset', 'reset behind the first bytes') },
    /** The service closes the connection. A client that stays does not close its side then. */
    { weight: 1, arbitrary: fc.constantFrom('wait', 'stay') },
  ),
})
type Sequence = typeof sequence extends fc.Arbitrary<infer T> ? T : never

const partsOf = ({ names, last }: Sequence): Part[] =>
  [...names.map(name => requests[name]), last === undefined ? undefined : unfinished[last]].filter(
    part => part !== undefined,
  )

const responsesOf = ({ port }: Sequence, part: Part): readonly string[] =>
  port === 'control' ? part.control : part.data

/** Whether bytes behind the response that ends the connection can reset it. */
function canBeReset(one: Sequence): boolean {
  const parts = partsOf(one)
  const last = parts.findIndex(part => closes(responsesOf(one, part)))
  return parts[last]?.resets === true && last < parts.length - 1
}

interface Due {
  /** The alternatives. */
  readonly texts: readonly string[]
  readonly isHead: boolean
}

/** The responses that are due, in their order. */
function dueTo(one: Sequence, idOf: (at: number) => string): Due[] {
  const all: Due[] = []
  const end = one.end === 'wait' || one.end === 'stay' ? '408' : '400'
  for (const [at, part] of partsOf(one).entries()) {
    const responses = responsesOf(one, part)
    for (const response of responses) {
      all.push({
        texts: response.split('|').map(text => text.replace('ID', idOf(at)).replace('END', end)),
        isHead: part.text.startsWith('HEAD'),
      })
    }
    if (closes(responses)) break
  }
  return all
}

/** Parses the responses, in the form of the model. @returns also the bytes of an incomplete one */
function parse(text: string, due: readonly Due[], ids: readonly string[]) {
  const responses: string[] = []
  let rest = text
  for (;;) {
    const end = rest.indexOf('\r\n\r\n') + 4
    const status = /^HTTP\/1\.1 (\d{3}) /.exec(rest)?.[1]
    if (end < 4 || status === undefined) return { responses, rest }
    const head = rest.slice(0, end)
    const id = /\r\nRequest-Id: (.*)\r\n/.exec(head)?.[1]
    const isRaw = id !== undefined && !ids.includes(id)
    const isEmpty = due[responses.length]?.isHead === true && !isRaw
    const length = isEmpty ? 0 : Number(/\r\nContent-Length: (\d+)\r\n/.exec(head)?.[1] ?? 0)
    if (rest.length < end + length) return { responses, rest }
    rest = rest.slice(end + length)
    const close = /\r\nConnection: close\r\n/.test(head) ? 'close' : undefined
    responses.push([status, isRaw ? 'new' : id, close].filter(Boolean).join(' '))
  }
}

/**
 * @param wasReset whether the service or the client has reset the connection, so that only the first responses arrive
 * @returns the number of responses @throws AssertionError unless they are those that are due
 */
function check(one: Sequence, text: string, idOf: (at: number) => string, wasReset: boolean): number {
  const due = dueTo(one, idOf)
  const { responses, rest } = parse(
    text,
    due,
    partsOf(one).map((_, at) => idOf(at)),
  )
  const expected = due.slice(0, wasReset ? responses.length : undefined)
  assert.deepEqual(
    responses,
    expected.map(({ texts }, at) => texts.find(text => text === responses[at]) ?? texts.join('|')),
  )
  if (!wasReset) assert.equal(rest, '', 'more than the responses')
  return responses.length
}

function packetsOf(one: Sequence, texts: readonly string[]): string[] {
  let bytes = texts.join('')
  if (one.packets === 'one') return [bytes]
  if (one.packets === 'at blank lines') return bytes.split(/(?<=\r\n\r\n)/)
  if (typeof one.packets === 'string') return [...texts]
  const packets = one.packets.map(length => {
    const packet = bytes.slice(0, length)
    bytes = bytes.slice(length)
    return packet
  })
  return [...packets, bytes].filter(packet => packet !== '')
}

/** Waits for the next bytes. @param stopped resolves when nothing more is received */
const nextBytes = ({ socket }: Raw, stopped: Promise<void>) =>
  Promise.race([new Promise(resolve => socket.once('data', resolve)), stopped])

async function sendPackets(client: Raw, stopped: Promise<void>, one: Sequence, texts: readonly string[]) {
  const waits = typeof one.packets === 'string' && one.packets.startsWith('each')
  for (const [at, packet] of packetsOf(one, texts).entries()) {
    if (at > 0 && waits) await nextBytes(client, stopped)
    else if (at > 0) await new Promise(setImmediate)
    if (client.isClosed()) return
    client.write(packet)
  }
}

/** Resets a TCP connection; ends a TLS connection at once. */
function reset(socket: Socket, { port }: Sequence): void {
  if (port === 'https') socket.destroy()
  else socket.resetAndDestroy()
}

/** Sends a sequence. @returns what resolves when its connection is closed, or when the service has ended it if the client stays */
async function send(service: Service, one: Sequence, idOf: (at: number) => string) {
  const port = one.port === 'control' ? service.port('http') + 1 : service.port(one.port)
  const client = await connect(port, { tls: one.port === 'https', allowHalfOpen: true })
  const { socket, closed } = client
  let failed = false
  socket.on('error', () => {
    failed = true
  })
  const stopped = Promise.race([closed, new Promise<void>(resolve => socket.once('end', () => resolve()))])
  const texts = partsOf(one).map(({ text }, at) => text.replaceAll('ID', idOf(at)))
  await sendPackets(client, stopped, one, texts)
  if (one.end === 'reset behind the first bytes' && client.text() === '') await nextBytes(client, stopped)
  if (one.end.startsWith('reset')) reset(socket, one)
  else if (one.end === 'half-close') socket.end()
  else if (one.end === 'wait') void stopped.then(() => socket.end())
  const late = delay(CLOSED_MS, undefined, { ref: false }).then(() => {
    throw new Error(`the connection is open after ${CLOSED_MS} ms`)
  })
  const wasReset = () => one.end.startsWith('reset') || (failed && canBeReset(one))
  return { client, wasReset, finished: Promise.race([one.end === 'stay' ? stopped : closed, late]) }
}

/** Sends all sequences, several at a time. @returns the number of their responses @throws Error that names a sequence */
async function sendAll(service: Service, sequences: readonly Sequence[], seed: number): Promise<number> {
  const [staying, waiting] = [new Set<Socket>(), new Set<Promise<void>>()]
  const faults: string[] = []
  let [next, responses] = [0, 0]

  async function sendOne(at: number, one: Sequence): Promise<void> {
    const idOf = (part: number) => `${seed}.${String(at).padStart(5, '0')}.${part}`.padStart(ID_LENGTH, '0')
    const { client, wasReset, finished } = await send(service, one, idOf)
    if (one.end === 'stay') staying.add(client.socket)
    const checked: Promise<void> = finished
      .then(() => {
        responses += check(one, client.text(), idOf, wasReset())
      })
      .catch(error => {
        faults.push(`TEST_SEED=${seed}, sequence ${at}: ${JSON.stringify(one)}\n${error}`)
      })
      .finally(() => waiting.delete(checked))
    waiting.add(checked)
    if (one.end !== 'stay' && one.end !== 'wait') await checked
    else if (waiting.size > WAITING) await Promise.race(waiting)
  }

  await Promise.all(
    Array.from({ length: SENDING }, async () => {
      for (let at = next++; at < sequences.length && faults.length === 0; at = next++) {
        const one = sequences[at]
        if (one !== undefined) await sendOne(at, one)
      }
    }),
  )
  await Promise.all(waiting)
  if (faults.length > 0) throw new Error(faults.join('\n\n'))
  await until(async () => (await openConnections(service)) === 0)
  for (const socket of staying) socket.destroy()
  return responses
}

async function openConnections({ controlUrl }: Service): Promise<number> {
  const { ports }: Status = JSON.parse((await ask(`${controlUrl}/status`))?.text ?? '')
  return Object.values(ports).reduce((sum, { connections }) => sum + connections, 0)
}

/** The sockets and files of the supervisor, which has the connections of the control ports. Only Linux shows them. */
const openFiles = ({ supervisor }: Service): number =>
  process.platform === 'linux' ? readdirSync(`/proc/${supervisor.pid}/fd`).length : 0

export const rawBytes: Scenario = {
  title: 'random sequences of raw bytes',

  run: ({ short }) =>
    // One worker: several leave connections to each other, and `Connection: close` says so.
    withService({ workers: 1, config: { timeouts } }, async service => {
      const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
      const sequences = fc.sample(sequence, { numRuns: short ? 300 : 10_000, seed })
      const [workers, files] = [await service.workers(), openFiles(service)]
      const responses = await sendAll(service, sequences, seed)
      await until(() => openFiles(service) <= files)
      assert.deepEqual(await service.workers(), workers)
      assert.equal((await ask(`${service.controlUrl}/healthcheck/http`))?.status, 200)
      const smuggled = await ask(`${service.url}/v1/users?first_name=smuggled`)
      assert.match(smuggled?.text ?? '', /"total_records":0/)
      return (
        `${sequences.length} sequences, ${responses} responses, each one due; ` +
        `no worker exited, no connection is left (TEST_SEED=${seed})`
      )
    }),
}
