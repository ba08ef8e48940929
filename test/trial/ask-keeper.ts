// Asks the keeper of the trial, the background process of `npm run cluster`, for its status or its end.
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { socketFolder } from '../../src/cli/private-servers/folders.ts'
import { root } from '../../src/config/root.ts'

/** The folder with the files of the trial. */
export const base = join(root, 'var', 'cluster')

/** The socket on which the keeper listens. */
export const socketPath = async (): Promise<string> => join(await socketFolder(base), 'trial.sock')

/**
 * Sends a command to the keeper.
 * @returns its reply, for `stop` after everything has stopped; undefined if there is no keeper
 */
export async function askKeeper(command: 'status' | 'stop'): Promise<string | undefined> {
  const socket = connect(await socketPath())
  try {
    await once(socket, 'connect')
    socket.write(command)
    let reply = ''
    for await (const chunk of socket.setEncoding('utf8')) reply += chunk
    return reply
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}
