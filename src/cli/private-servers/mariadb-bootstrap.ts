// What MariaDB's own mariadb-install-db feeds to a new server. That script is not used: Debian's package of the bare
// server lacks a program that it needs.
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runProgram } from './run-program.ts'

// Older versions print mysql_, newer ones mariadb_.
const files = [/^\w+_system_tables\.sql$/, /^\w+_performance_tables\.sql$/, /^\w+_system_tables_data\.sql$/]

/** @returns statements for the standard input of `mariadbd --bootstrap`: one root without a password */
export async function mariadbSystemTables(program: string): Promise<string> {
  const help = await runProgram(program, ['--no-defaults', '--verbose', '--help'])
  const charsets = /^character-sets-dir\s+(\S.*)$/m.exec(help)?.[1]
  if (charsets === undefined) throw new Error(`${program} does not say where its files are`)
  const folder = dirname(charsets)
  const names = await readdir(folder)
  const parts = files.map(file => {
    const name = names.find(one => file.test(one))
    if (name === undefined) throw new Error(`${folder} lacks the tables that a new server needs`)
    return readFile(join(folder, name), 'utf8')
  })
  // The server reads one statement a line.
  const begin = ['CREATE DATABASE mysql;', 'USE mysql;', 'SET @auth_root_socket = NULL;']
  return [...begin, ...(await Promise.all(parts))].join('\n')
}
