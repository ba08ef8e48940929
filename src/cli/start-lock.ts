// Lets one `npm start` of a folder run at a time: two at once would start the same servers, or undo what the other one has started.
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { platform } from 'node:os'
import { root } from '../config/root.ts'
import { hasCode } from '../core/error-reason.ts'
import { retry } from '../core/retry.ts'
import { print } from './command-line.ts'

/** Longer than a start takes that installs a database server. */
const TIMEOUT_MS = 300_000
const PAUSE_MS = 200

const isTaken = (error: unknown): boolean => hasCode(error, 'EADDRINUSE')

/**
 * Waits until no other `npm start` of this folder runs. The lock is an abstract socket (unix(7)), which Linux removes when this
 * process ends. Other systems have none, and no lock.
 * @throws Error after 5 minutes, or if the system refuses the socket
 */
export async function lockStart(): Promise<void> {
  if (platform() !== 'linux') return
  const server = createServer()
  const name = hash('sha256', root, 'hex')
  const lock = async () => {
    server.listen(`\0users-api start ${name}`)
    await once(server, 'listening')
  }
  await retry(lock, {
    timeoutMs: TIMEOUT_MS,
    pauseMs: () => PAUSE_MS,
    isTransient: isTaken,
    beforePause(_, attempt) {
      if (attempt === 1) print('waiting for another npm start of this folder')
    },
  }).catch((error: unknown) => {
    // Not the message: it has the name of the socket, which begins with NUL.
    if (hasCode(error) && !isTaken(error)) throw new Error(`npm start cannot take its lock: ${error.code}`)
    throw new Error('another npm start of this folder has run for 5 minutes: wait for its end, or end it')
  })
}
