// Prepares a private MySQL or MariaDB: creates its data folder once, listens only on a Unix socket, uses little
// memory.
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import mysql from 'mysql2/promise'
import { socketFolder } from './folders.ts'
import { findProgram, mysqlProgram } from './programs.ts'
import { runProgram } from './run-program.ts'
import type { PrivateServer, ServerOptions } from './server.ts'

const CONNECT_TIMEOUT_MS = 2000

async function installation(name: string) {
  const program = findProgram([name])
  if (program === undefined) return undefined
  const text = await runProgram(program, ['--no-defaults', '--version'])
  const version = /Ver ([0-9.]+)/.exec(text)?.[1] ?? ''
  const isMariadb = text.includes('MariaDB')
  return { program, isMariadb, title: `${isMariadb ? 'MariaDB' : 'MySQL'} ${version}` }
}
type Installation = NonNullable<Awaited<ReturnType<typeof installation>>>

/** @returns the first server that is installed, or the first MariaDB (true) or MySQL (false) */
export async function findInstallation(isMariadb?: boolean): Promise<Installation | undefined> {
  const installations = await Promise.all(mysqlProgram.names.map(installation))
  return installations.find(
    one => one !== undefined && (isMariadb === undefined || one.isMariadb === isMariadb),
  )
}

/**
 * Chooses the installation that created the existing data folder. MySQL and MariaDB cannot read each other's files,
 * so each has its own folder. Without a data folder, it chooses the first one that is installed.
 */
async function chooseInstallation(base: string): Promise<Installation> {
  const existing = ['mariadb', 'mysql'].find(folder => existsSync(join(base, folder)))
  const chosen = await findInstallation(existing === undefined ? undefined : existing === 'mariadb')
  if (chosen !== undefined) return chosen
  throw new Error(
    existing === undefined
      ? `${mysqlProgram.title} cannot be found: install it`
      : `${join(base, existing)} needs ${existing === 'mariadb' ? 'MariaDB' : 'MySQL'}, which cannot be found:` +
          ' install it, or move the folder away to start with an empty database',
  )
}

/** MySQL refuses to run as root unless this option is given. */
export const userArgs = process.getuid?.() === 0 ? ['--user=root'] : []

/**
 * @param folder for temporary files; not a shared one, because MariaDB deletes other servers' files there at its
 * start
 */
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

// The names begin with mysql_ in older versions and with mariadb_ in newer ones.
const systemTables = [
  /^\w+_system_tables\.sql$/,
  /^\w+_performance_tables\.sql$/,
  /^\w+_system_tables_data\.sql$/,
]

/**
 * Returns the statements for `mariadbd --bootstrap`, which mariadb-install-db sends to a new server. They create `root` without a
 * password. The script itself needs a program that Debian's mariadb-server-core package does not contain.
 */
async function mariadbSystemTables(program: string): Promise<string> {
  const help = await runProgram(program, ['--no-defaults', '--verbose', '--help'])
  const charsets = /^character-sets-dir\s+(\S.*)$/m.exec(help)?.[1]
  if (charsets === undefined) throw new Error(`${program} --help does not print character-sets-dir`)
  const folder = dirname(charsets)
  const names = await readdir(folder)
  const parts = systemTables.map(file => {
    const name = names.find(one => file.test(one))
    if (name === undefined) throw new Error(`${folder} lacks the SQL files of the system tables`)
    return readFile(join(folder, name), 'utf8')
  })
  // A line must not have two statements.
  const begin = ['CREATE DATABASE mysql;', 'USE mysql;', 'SET @auth_root_socket = NULL;']
  return [...begin, ...(await Promise.all(parts))].join('\n')
}

/** Creates the data folder under another name and renames it at the end, so that an incomplete one is never used. */
export async function createDataFolder(
  server: Installation,
  data: string,
  args: readonly string[],
): Promise<void> {
  const temporary = `${data}.making`
  await rm(temporary, { recursive: true, force: true })
  await mkdir(temporary, { recursive: true, mode: 0o700 })
  const mode = server.isMariadb ? '--bootstrap' : '--initialize-insecure'
  // At its start, MariaDB deletes the temporary tables in this folder: those of another server, if they shared /tmp.
  const folders = [`--datadir=${temporary}`, `--tmpdir=${dirname(data)}`]
  const statements = server.isMariadb ? await mariadbSystemTables(server.program) : ''
  await runProgram(server.program, ['--no-defaults', mode, ...folders, ...args], statements)
  await rename(temporary, data)
}

const SOCKET_NAME = 'mysql.sock'

/** Returns the URL of a database of the server in `base`, which may not be running. */
export async function privateMysqlUrl(database: string, base: string): Promise<string> {
  const socketPath = join(await socketFolder(base), SOCKET_NAME)
  return `mysql://root@localhost/${database}?${new URLSearchParams({ socketPath })}`
}

/**
 * Prepares a server to be run. Its `root` has no password, because only the owner can enter the socket's folder.
 * @param database the name in the URL; the database is not created
 * @throws Error with the server's error message if it cannot create its data folder
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
    print(`creating a data folder for ${server.title} in ${data}`)
    await createDataFolder(server, data, args)
  }
  const socketPath = join(folder, SOCKET_NAME)
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
    url: await privateMysqlUrl(database, base),
    async ping() {
      const connection = await mysql.createConnection({
        socketPath,
        user: 'root',
        connectTimeout: CONNECT_TIMEOUT_MS,
      })
      await connection.end()
    },
  }
}
