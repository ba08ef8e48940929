// HAProxy before the nodes of the trial cluster. It runs config/cluster/haproxy.cfg.
import { join } from 'node:path'
import { pathOf } from '../../src/cli/private-servers/programs.ts'
import { environmentWith } from '../../src/config/environment.ts'
import { root } from '../../src/config/root.ts'
import { haproxyProgram } from '../support/programs.ts'
import type { Part } from './part.ts'
import { statusOf } from './part.ts'
import { HOST, NUMBERS, type Ports } from './ports.ts'
import { createRestartable } from './restartable.ts'

/**
 * Describes HAProxy.
 * @param folder for its log
 * @param sockets the folder for its socket
 * @throws Error if it is not installed
 */
export function createHaproxy(ports: Ports, folder: string, sockets: string): Part {
  const program = pathOf(haproxyProgram)
  const page = `http://${HOST}:${ports.page}/`
  const server = {
    title: haproxyProgram.title,
    program,
    args: ['-db', '-f', join(root, 'config', 'cluster', 'haproxy.cfg')],
    url: page,
    async ping() {
      const status = await statusOf(page)
      if (status !== 200) throw new Error(`${page} answers ${status}`)
    },
  }
  const nodes = NUMBERS.map(number => ({
    [`NODE${number}_ADDRESS`]: HOST,
    [`NODE${number}_PORT`]: String(ports.node(number)),
    [`NODE${number}_CHECK`]: String(ports.node(number) + 1),
  }))
  const env = environmentWith({
    LISTEN: `${HOST}:${ports.api}`,
    LISTEN_PAGE: `${HOST}:${ports.page}`,
    CHECK_EVERY: '500ms',
    STATS_SOCKET: join(sockets, 'haproxy.sock'),
    ...Object.assign({}, ...nodes),
  })
  const restartable = createRestartable(() => server, { env, logFile: join(folder, 'haproxy.log') })
  return { ...restartable, name: 'haproxy', address: page }
}
