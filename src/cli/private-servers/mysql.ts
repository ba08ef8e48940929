// A MySQL or MariaDB of our own: its data folder is made once, it listens on a Unix socket only, it uses little memory.
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import mysql from 'mysql2/promise'
import { socketFolder } from './folders.ts'
import { mariadbSystemTables } from './mariadb-bootstrap.ts'
import { findProgram, mysqlProgram } from './programs.ts'
import { runProgram } from './run-program.ts'
import type { PrivateServer, ServerOptions } from './server.ts'

const PING_TIMEOUT_MS = 2000

interface Installation {
  readonly program: string
  readonly isMariadb: boolean
  readonly title: string
}

async function installation(name: string): Promise<Installation | undefined> {
  const program = await findProgram([name])
  if (program === undefined) return undefined
  const text = await runProgram(program, ['--no-defaults', '--version'])
  const version = /Ver ([0-9.]+)/.exec(text)?.[1] ?? ''
  const isMariadb = text.includes('MariaDB')
  return { program, isMariadb, title: `${isMariadb ? 'MariaDB' : 'MySQL'} ${version}` }
}

/** The two cannot read each other's files, so each has a folder of its own name: what made the data goes on serving it. */
async function chooseInstallation(base: string): Promise<Installation> {
  const made = ['mariadb', 'mysql'].find(folder => existsSync(join(base, folder)))
  const installations = await Promise.all(mysqlProgram.names.map(installation))
  const chosen = installations.find(
    one => one !== undefined && (made === undefined || one.isMariadb === (made === 'mariadb')),
  )
  if (chosen !== undefined) return chosen
  throw new Error(
    made === undefined
      ? `${mysqlProgram.title} cannot be found`
      : `${join(base, made)} needs ${made === 'mariadb' ? 'MariaDB' : 'MySQL'}, which cannot be found:` +
          ' install it, or move the folder away to start with an empty database',
  )
}

/** Root must print that it means it. */
const userArgs = process.getuid?.() === 0 ? ['--user=root'] : []

/** @param folder for sockets and temporary files: a starting MariaDB clears away what others have in a shared one */
function settings({ isMariadb }: Installation, folder: string, durable: boolean): string[] {
  return [
    ...(isMariadb ? [] : ['--mysqlx=OFF', '--secure-file-priv=NULL']),
    ...userArgs,
    `--tmpdir=${folder}`,
    '--skip-networking',
    '--skip-log-bin',
    '--character-set-server=utf8mb4',
    '--max-connections=1000',
    '--innodb-buffer-pool-size=128M',
    '--performance-schema=OFF',
    `--innodb-flush-log-at-trx-commit=${durable ? 1 : 0}`,
    `--innodb-doublewrite=${durable ? 'ON' : 'OFF'}`,
  ]
}

/** Makes the data folder aside and then names it, so that a half-made one is never taken for a whole one. */
async function initialise(server: Installation, data: string, args: readonly string[]): Promise<void> {
  const making = `${data}.making`
  await rm(making, { recursive: true, force: true })
  await mkdir(making, { recursive: true, mode: 0o700 })
  const mode = server.isMariadb ? '--bootstrap' : '--initialize-insecure'
  const statements = server.isMariadb ? await mariadbSystemTables(server.program) : ''
  await runProgram(server.program, ['--no-defaults', mode, `--datadir=${making}`, ...args], statements)
  await rename(making, data)
}

/**
 * Makes a server ready to be run; its `root` has no password, for nobody else can enter the socket's folder.
 * @param database stands in the URL; it is not created
 * @throws Error with the server's own words where it cannot make its data folder
 */
export async function prepareMysql(
  database: string,
  { base, durable, print }: ServerOptions,
): Promise<PrivateServer> {
  const server = await chooseInstallation(base)
  const data = join(base, server.isMariadb ? 'mariadb' : 'mysql')
  const folder = await socketFolder(base)
  const args = settings(server, folder, durable)
  if (!existsSync(data)) {
    print(`making a data folder for ${server.title} in ${data}`)
    await initialise(server, data, args)
  }
  const socketPath = join(folder, 'mysql.sock')
  return {
    title: server.title,
    program: server.program,
    args: [
      '--no-defaults',
      `--datadir=${data}`,
      `--socket=${socketPath}`,
      `--pid-file=${join(folder, 'mysql.pid')}`,
      ...args,
    ],
    url: `mysql://root@localhost/${database}?${new URLSearchParams({ socketPath })}`,
    async ping() {
      const connection = await mysql.createConnection({
        socketPath,
        user: 'root',
        connectTimeout: PING_TIMEOUT_MS,
      })
      await connection.end()
    },
  }
}
