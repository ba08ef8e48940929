// Entry point of `npm run cluster`: a trial of three nodes on this machine, behind HAProxy and on a cluster of databases. The
// trial runs in the background (`keeper.ts`).
import { parseArgs } from 'node:util'
import { print, runCommand, UsageError } from '../../src/cli/command-line.ts'
import { assertWritable } from '../../src/cli/private-servers/folders.ts'
import { askKeeper, base } from './ask-keeper.ts'
import { type KeeperOptions, launchKeeper } from './launch.ts'

const usage = `usage: npm run cluster [-- start|stop|status] [--mysql] [--port NUMBER]

  start     start three nodes of the service, HAProxy, three databases and Redis with Sentinel on 127.0.0.1; the default
  stop      stop them
  status    show their addresses and process ids

  --mysql   use MySQL with Group Replication instead of MariaDB with Galera
  --port    port of the API, 9000 by default; the other ports are among the next 55

exit codes: 0 done, 1 failed, 2 usage error, 3 the trial is not running (status)`

const exitCodes = { done: 0, notRunning: 3 } as const
const MAX_FIRST_PORT = 65_000

const interruption = new AbortController()

async function start({ mysql, port }: KeeperOptions): Promise<number> {
  const running = await askKeeper('status')
  if (running !== undefined) {
    print(`the trial is already running\n\n${running}\n`)
    return exitCodes.done
  }
  await assertWritable(base)
  const startedMs = performance.now()
  const description = await launchKeeper({ port, mysql }, print, interruption.signal)
  print(`started in ${((performance.now() - startedMs) / 1000).toFixed(1)} s: ${description}`)
  return exitCodes.done
}

async function stop(): Promise<number> {
  print('stopping the trial')
  print((await askKeeper('stop')) === undefined ? 'not running' : 'stopped')
  return exitCodes.done
}

async function status(): Promise<number> {
  const reply = await askKeeper('status')
  print(reply === undefined ? 'the trial is not running' : `the trial\n\n${reply}\n`)
  return reply === undefined ? exitCodes.notRunning : exitCodes.done
}

const commands: Readonly<Record<string, (options: KeeperOptions) => Promise<number>>> = {
  start,
  stop,
  status,
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      mysql: { type: 'boolean', default: false },
      port: { type: 'string', default: '9000' },
    },
  })
  const [name = 'start', ...rest] = positionals
  const isPort = /^[1-9][0-9]{0,4}$/.test(values.port) && Number(values.port) <= MAX_FIRST_PORT
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined || rest.length > 0 || !isPort) throw new UsageError()
  return command(values)
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interruption.abort())
process.exit(await runCommand(main, usage))
