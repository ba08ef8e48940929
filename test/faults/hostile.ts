// Clients that mean harm, each kind beside honest ones, who must not notice: slow ones, greedy ones, ten thousand idle ones.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { createClient } from '../support/http.ts'
import { ask, type Service } from '../support/service.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const head = 'Host: a\r\nContent-Type: application/json\r\n'
const half = `POST /v1/users HTTP/1.1\r\n${head}Content-Length: 1000000\r\n\r\n`

interface Attack {
  readonly connections: number
  /** What each connection sends at once. */
  readonly first: string | Buffer
  /** What each sends again and again while honest clients ask. */
  readonly more?: string
  readonly reads?: boolean
}

const attacks: Record<string, Attack> = {
  'idle connections': { connections: 10_000, first: '' },
  'slow headers': {
    connections: 1000,
    first: 'GET /v1/users HTTP/1.1\r\nHost: a\r\n',
    more: 'X-More: a\r\n',
  },
  'slow bodies': { connections: 400, first: half, more: '{"first_name":"a",' },
  'bodies that stop before their end': { connections: 400, first: half + ' '.repeat(500_000) },
  'readers who do not read': {
    connections: 20,
    first: 'GET /v1/users?records_per_page=1000 HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(10),
  },
  'floods of pipelined requests': {
    connections: 20,
    first: 'GET /v1/users/1 HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(5000),
    reads: true,
  },
  'floods of headers': {
    connections: 200,
    first: `GET /v1/users HTTP/1.1\r\nHost: a\r\n${'a: b\r\n'.repeat(20_000)}\r\n`,
  },
  'endless URLs': { connections: 200, first: `GET /v1/users?first_name=${'a'.repeat(1_000_000)}` },
  'deep JSON': {
    connections: 50,
    first: `POST /v1/users HTTP/1.1\r\n${head}Content-Length: 1000000\r\n\r\n${'['.repeat(1_000_000)}`,
    reads: true,
  },
}

async function attack(port: number, { connections, first, more, reads = false }: Attack) {
  const sockets: net.Socket[] = []
  // In parts: the queue of connections that are not accepted yet is short.
  for (let made = 0; made < connections; made += 100)
    await Promise.all(
      Array.from({ length: Math.min(100, connections - made) }, async () => {
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
    /** Drips what each sends slowly. */
    drip(): void {
      if (more !== undefined) for (const socket of sockets) if (socket.writable) socket.write(more)
    },
    end(): void {
      for (const socket of sockets) socket.destroy()
    },
  }
}

const mebibytes = (bytes: number) => Math.round(bytes / 2 ** 20)

/** How many files this process may still open, with some to spare. */
async function spareDescriptors(): Promise<number> {
  const limit = Number((await runProgram('/bin/sh', ['-c', 'ulimit -n'])).trim())
  return Number.isNaN(limit) ? Infinity : limit - 500
}

/** The largest resident memory of a worker. */
async function memoryBytes({ controlUrl }: Service): Promise<number> {
  const history: { memory_bytes: { workers: Record<string, number> } } = JSON.parse(
    (await ask(`${controlUrl}/history`))?.text ?? '',
  )
  return Math.max(...Object.values(history.memory_bytes.workers))
}

export const hostile: Scenario = {
  title: 'hostile clients beside honest ones',

  run: ({ short }) =>
    // A worker that grows beyond this is replaced, which would be seen.
    withService({ config: { fleet: { memoryBytes: 2 ** 30 } } }, async service => {
      const honestRequests = short ? 30 : 300
      const setup = createClient(service.url)
      // Four bytes each: a page of them is a megabyte.
      const users = Array.from({ length: 1000 }, (_, index) => ({
        first_name: '\u{1d11e}'.repeat(250),
        last_name: `${index}`,
      }))
      for (const half of [users.slice(500), users.slice(0, 500)])
        assert.equal((await setup.post('/v1/users', { users: half })).status, 200)
      setup.close()
      const workers = await service.workers()
      const lines: string[] = []
      const mostConnections = await spareDescriptors()
      let most = 0
      for (const [name, wanted] of Object.entries(attacks)) {
        const kind = { ...wanted, connections: Math.min(wanted.connections, mostConnections) }
        const attackers = await attack(service.port('http'), kind)
        let slowestMs = 0
        let heldBytes = 0
        for (let asked = 0; asked < honestRequests; asked++) {
          attackers.drip()
          // On a connection of its own each time: they are to be let in, too.
          const honest = createClient(service.url)
          const beganMs = performance.now()
          const { status, text } = await honest.get('/v1/users/1?include=groups')
          slowestMs = Math.max(slowestMs, performance.now() - beganMs)
          assert.equal(status, 200, `${name}: ${text}`)
          heldBytes = Math.max(heldBytes, await memoryBytes(service))
          honest.close()
        }
        most = Math.max(most, heldBytes)
        lines.push(
          `${kind.connections} ${name}: the slowest honest answer took ${Math.round(slowestMs)} ms, ` +
            `a worker held ${mebibytes(heldBytes)} MiB`,
        )
        attackers.end()
        assert.deepEqual(await service.workers(), workers, name)
      }
      return [
        `${honestRequests} honest requests during each attack, 0 failed, no worker lost; ` +
          `no worker held more than ${mebibytes(most)} MiB`,
        ...lines,
      ].join('\n      ')
    }),
}
