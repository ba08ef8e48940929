// The SQL statements that mariadb-install-db sends to a new MariaDB server. The script itself is not used, because it
// needs a program that Debian's mariadb-server-core package does not contain.
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runProgram } from './run-program.ts'

// The names begin with mysql_ in older versions and with mariadb_ in newer ones.
const systemTables = [
  /^\w+_system_tables\.sql$/,
  /^\w+_performance_tables\.sql$/,
  /^\w+_system_tables_data\.sql$/,
]

/** Returns the statements for `mariadbd --bootstrap`. They create `root` without a password. */
export async function mariadbSystemTables(program: string): Promise<string> {
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
