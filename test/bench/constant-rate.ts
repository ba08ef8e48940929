// A client that sends requests at a constant rate, whether or not earlier requests have a response. The latency of a request
// counts from the time at which it was due, so that it contains the time that the request waited for a free connection.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import type { Request } from './comparisons.ts'

export interface Latency {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
}

export interface ConstantRate {
  readonly url: string
  readonly request: Request
  /** Random ids are chosen from 1 to this number. */
  readonly users: number
  readonly connections: number
  readonly perSecond: number
  readonly seconds: number
}

const TICK_MS = 1
const endOfResponse = /content-length: (\d+)\r\n(?:.*\r\n)*?\r\n/i

let sent = 0

function requestText({ method, path, body }: Request, host: string, users: number): string {
  const fill = (template: string) =>
    template
      .replace('{id}', () => String(1 + Math.floor(Math.random() * users)))
      .replace('{unique}', () => `${Date.now()}-${sent++}`)
  const content = body === undefined ? '' : fill(body)
  const headers =
    content === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${content.length}\r\n`
  return `${method} ${fill(path)} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n${content}`
}

/** Calls `onResponse` with the status of each response on the connection. */
function readResponses(socket: Socket, onResponse: (status: number) => void): void {
  let text = ''
  socket.setEncoding('latin1').on('data', chunk => {
    text += chunk
    const match = endOfResponse.exec(text)
    if (match === null || text.length < match.index + match[0].length + Number(match[1])) return
    const status = Number(text.slice(9, 12))
    text = ''
    onResponse(status)
  })
}

/** @throws Error if a response has another status than 200, or if a connection ends */
export async function measureLatency(load: ConstantRate, signal: AbortSignal): Promise<Latency> {
  const { url, request, users, connections, perSecond, seconds } = load
  const { hostname, port, host } = new URL(url)
  const failed = new AbortController()
  const ended = AbortSignal.any([signal, failed.signal])
  const fail = (reason: string) => failed.abort(new Error(`${request.method} ${request.path}: ${reason}`))
  const latencies = createHistogram()
  /** The connections that wait for a request, and the times at which the waiting requests were due. */
  const [free, due]: [((dueMs: number) => void)[], number[]] = [[], []]
  const sendDue = (): void => {
    while (free.length > 0 && due.length > 0) free.shift()?.(due.shift() ?? Number.NaN)
  }

  async function open(): Promise<Socket> {
    const socket = connect(Number(port), hostname).setNoDelay()
    await once(socket, 'connect')
    let dueMs = Number.NaN
    const send = (sinceMs: number): void => {
      dueMs = sinceMs
      socket.write(requestText(request, host, users))
    }
    socket.on('close', () => fail('the connection ended'))
    readResponses(socket, status => {
      if (status !== 200) fail(`status ${status}`)
      latencies.record(Math.max(1, Math.round((performance.now() - dueMs) * 1000)))
      free.push(send)
      sendDue()
    })
    free.push(send)
    return socket
  }

  const sockets: Socket[] = []
  for (let index = 0; index < connections; index++) sockets.push(await open())
  const total = perSecond * seconds
  const startMs = performance.now()
  for (let requests = 0; latencies.count < total; await delay(TICK_MS, undefined, { signal: ended })) {
    const elapsedMs = performance.now() - startMs
    for (; requests < Math.min(total, (elapsedMs * perSecond) / 1000); requests++)
      due.push(startMs + (requests * 1000) / perSecond)
    sendDue()
  }
  for (const socket of sockets) socket.removeAllListeners('close').destroy()
  const percentileMs = (percent: number) => latencies.percentile(percent) / 1000
  return { p50Ms: percentileMs(50), p99Ms: percentileMs(99), p999Ms: percentileMs(99.9) }
}
