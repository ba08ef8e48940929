// The worker's end of the channel to its supervisor.
import { spawn } from 'node:child_process'
import { on, once } from 'node:events'
import net from 'node:net'
import test from 'ava'
import { evalArgs, moduleOf } from '../../support/child-code.ts'

test('requestSocket: a socket that is lost on its way is requested again, one that comes twice is closed', async t => {
  const code = `
    import { openSupervisorChannel } from '${moduleOf('worker/supervisor-channel')}'
    const socket = await openSupervisorChannel().requestSocket('http')
    process.on('message', (_, second) => process.send([socket.listening, second.listening]))
    process.send('received')
  `
  const worker = spawn(process.execPath, [...evalArgs, code], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  t.teardown(() => worker.kill())
  const server = net.createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const messages = on(worker, 'message')
  const next = async (): Promise<unknown> => (await messages.next()).value[0]
  const sendSocket = () => worker.send({ type: 'socket', label: 'http' }, server)
  t.deepEqual(await next(), { type: 'socket-request', label: 'http' })
  t.deepEqual(await next(), { type: 'socket-request', label: 'http' })
  sendSocket()
  // More requests can precede it.
  while ((await next()) !== 'received');
  sendSocket()
  t.deepEqual(await next(), [true, false])
})
