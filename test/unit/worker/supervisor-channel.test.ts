// The worker's end of the channel to its supervisor.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import test from 'ava'

const channel = new URL('../../../src/worker/supervisor-channel.ts', import.meta.url)

test('requestSocket: a socket that is lost on its way is requested again, one that comes twice is closed', async t => {
  const code = `
    import { openSupervisorChannel } from '${channel}'
    const socket = await openSupervisorChannel().requestSocket('http')
    process.on('message', (_, second) => process.send([socket.listening, second.listening]))
    process.send('received')
  `
  const args = ['--import=tsx', '--input-type=module', '--eval', code]
  const worker = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  t.teardown(() => worker.kill())
  const server = net.createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const next = async () => (await once(worker, 'message'))[0]
  const sendSocket = () => worker.send({ type: 'socket', label: 'http' }, server)
  t.deepEqual(await next(), { type: 'socket-request', label: 'http' })
  t.deepEqual(await next(), { type: 'socket-request', label: 'http' })
  const received = next()
  sendSocket()
  t.is(await received, 'received')
  const states = next()
  sendSocket()
  t.deepEqual(await states, [true, false])
})
