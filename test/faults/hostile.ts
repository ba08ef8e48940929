// Scenario: hostile clients (slow, flooding, and thousands of idle connections) run beside normal clients. The normal
// clients must get their responses, and no worker may exit.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { createClient } from '../support/http.ts'
import { ask, type Service } from '../support/service.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const head = 'Host: a\r\nContent-Type: application/json\r\n'
const incompletePost = `POST /v1/users HTTP/1.1\r\n${head}Content-Length: 1000000\r\n\r\n`

interface Attack {
  readonly connections: number
  /** Sent on each connection as soon as it opens. */
  readonly first: string | Buffer
  /** Sent on each connection before every normal request. */
  readonly more?: string
  /** Whether the client reads the responses; false by default. */
  readonly reads?: boolean
}

const attacks: Record<string, Attack> = {
  'idle connections': { connections: 10_000, first: '' },
  'slow headers': {
    connections: 1000,
    first: 'GET /v1/users HTTP/1.1\r\nHost: a\r\n',
    more: 'X-More: a\r\n',
  },
  'slow bodies': { connections: 400, first: incompletePost, more: '{"first_name":"a",' },
  'incomplete bodies': { connections: 400, first: incompletePost + ' '.repeat(500_000) },
  'bodies in chunks of one byte': {
    connections: 20,
    first: `POST /v1/users HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(150_000)}`,
  },
  'clients that do not read responses': {
    connections: 20,
    first: 'GET /v1/users?records_per_page=1000 HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(10),
  },
  'pipelined request floods': {
    connections: 20,
    first: 'GET /v1/users/1 HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(5000),
    reads: true,
  },
  'header floods': {
    connections: 200,
    first: `GET /v1/users HTTP/1.1\r\nHost: a\r\n${'a: b\r\n'.repeat(20_000)}\r\n`,
  },
  'oversized URLs': { connections: 200, first: `GET /v1/users?first_name=${'a'.repeat(1_000_000)}` },
  'deeply nested JSON': {
    connections: 50,
    first: `POST /v1/users HTTP/1.1\r\n${head}Content-Length: 1000000\r\n\r\n${'['.repeat(1_000_000)}`,
    reads: true,
  },
}

async function attack(port: number, { connections, first, more, reads = false }: Attack) {
  const sockets: net.Socket[] = []
  // Connects in groups because the listen backlog is short.
  for (let opened = 0; opened < connections; opened += 100)
    await Promise.all(
      Array.from({ length: Math.min(100, connections - opened) }, async () => {
        const socket = net.connect(port, '127.0.0.1')
        socket.on('error', () => {})
        sockets.push(socket)
        if (reads) socket.resume()
        else socket.pause()
        await once(socket, 'connect').catch(() => {})
        socket.write(first)
      }),
    )
  return {
    sendMore(): void {
      if (more !== undefined) for (const socket of sockets) if (socket.writable) socket.write(more)
    },
    end(): void {
      for (const socket of sockets) socket.destroy()
    },
  }
}

const mebibytes = (bytes: number) => Math.round(bytes / 2 ** 20)

/** Returns how many sockets this process may open: the file descriptor limit minus a reserve. */
async function maxSockets(): Promise<number> {
  const limit = Number((await runProgram('/bin/sh', ['-c', 'ulimit -n'])).trim())
  return Number.isNaN(limit) ? Infinity : limit - 500
}

/** Returns the resident memory of the largest worker, in bytes. */
async function largestWorkerBytes({ controlUrl }: Service): Promise<number> {
  const history: { memory_bytes: { workers: Record<string, number> } } = JSON.parse(
    (await ask(`${controlUrl}/history`))?.text ?? '',
  )
  return Math.max(...Object.values(history.memory_bytes.workers))
}

export const hostile: Scenario = {
  title: 'hostile clients beside normal clients',

  run: ({ short }) =>
    // The supervisor replaces a worker that exceeds this limit, which fails the scenario.
    withService({ config: { fleet: { memoryBytes: 2 ** 30 } } }, async service => {
      const normalRequests = short ? 15 : 300
      const setup = createClient(service.url)
      // Each character takes four bytes, so a page of 1000 users takes 1 MB.
      const users = Array.from({ length: 1000 }, (_, index) => ({
        first_name: '\u{1d11e}'.repeat(250),
        last_name: `${index}`,
      }))
      for (const half of [users.slice(500), users.slice(0, 500)])
        assert.equal((await setup.post('/v1/users', { users: half })).status, 200)
      setup.close()
      const workers = await service.workers()
      const lines: string[] = []
      const maxConnections = await maxSockets()
      let maxBytes = 0
      for (const [name, wanted] of Object.entries(attacks)) {
        const kind = { ...wanted, connections: Math.min(wanted.connections, maxConnections) }
        const attackers = await attack(service.port('http'), kind)
        let slowestMs = 0
        let attackBytes = 0
        for (let sent = 0; sent < normalRequests; sent++) {
          attackers.sendMore()
          // Each request opens a new connection, so it also checks that the service accepts one during the attack.
          const client = createClient(service.url)
          const startedMs = performance.now()
          const { status, text } = await client.get('/v1/users/1?include=groups')
          slowestMs = Math.max(slowestMs, performance.now() - startedMs)
          assert.equal(status, 200, `${name}: ${text}`)
          attackBytes = Math.max(attackBytes, await largestWorkerBytes(service))
          client.close()
        }
        maxBytes = Math.max(maxBytes, attackBytes)
        lines.push(
          `${kind.connections} ${name}: slowest normal response ${Math.round(slowestMs)} ms, ` +
            `largest worker ${mebibytes(attackBytes)} MiB`,
        )
        attackers.end()
        assert.deepEqual(await service.workers(), workers, name)
      }
      return [
        `${normalRequests} normal requests during each attack, 0 failed, no worker exited; ` +
          `largest worker ${mebibytes(maxBytes)} MiB`,
        ...lines,
      ].join('\n      ')
    }),
}
