// A private MySQL or Redis as a child of this process: started, waited for, stopped.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type PrivateServer, untilAnswers } from './server.ts'

const startMs = 60_000

/**
 * Runs a server until `stop`, which resolves once it has ended: cleanly, or at once with SIGKILL.
 * @param env this process's environment unless given
 * @throws Error with the last lines of its log where it does not come up
 */
export async function runServer(server: PrivateServer, env?: NodeJS.ProcessEnv) {
  // In a process group of its own: a Ctrl-C at the terminal is for us, who stop it once nobody uses it any more.
  const child = spawn(server.program, server.args, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const exited = once(child, 'exit')
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (log = (log + text).slice(-4000)))

  async function stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    child.kill(signal)
    await exited
    process.off('exit', kill)
  }

  await untilAnswers(server, startMs, () => {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${server.title} ended with ${child.exitCode ?? child.signalCode}:\n${log}`)
  }).catch(async error => {
    await stop('SIGKILL')
    throw error
  })
  return { child, stop }
}
