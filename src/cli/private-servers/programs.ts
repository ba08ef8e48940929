// Finds programs such as MySQL and Redis on this machine. As root on Debian and Ubuntu, it also installs them.
import { existsSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'
import { programFolders } from '../../config/environment.ts'
import { runProgram } from './run-program.ts'

export interface Program {
  /** The name for messages. */
  readonly title: string
  /** The possible names of the executable, or absolute paths of files, in order of preference. */
  readonly names: readonly string[]
  readonly debianPackage: string
  readonly brewFormula?: string
  /** The environment variable with the URL of a server to use instead, if there can be one. */
  readonly variable?: string
}

export const mysqlProgram: Program = {
  title: 'MySQL or MariaDB',
  names: ['mysqld', 'mariadbd'],
  debianPackage: 'mariadb-server-core',
  brewFormula: 'mariadb',
  variable: 'DATABASE_URL',
}

export const redisProgram: Program = {
  title: 'Redis',
  names: ['redis-server'],
  debianPackage: 'redis-server',
  brewFormula: 'redis',
  variable: 'REDIS_URL',
}

// Servers are often installed in folders outside an ordinary user's PATH.
const moreFolders = ['/usr/sbin', '/usr/local/sbin', '/usr/local/bin', '/opt/homebrew/bin']

/** @returns the absolute path of the first of `names` that exists */
export function findProgram(names: readonly string[]): string | undefined {
  const folders = [...programFolders().split(delimiter), ...moreFolders]
  return names.flatMap(name => folders.map(folder => resolve(folder, name))).find(path => existsSync(path))
}

/** @returns the absolute path of a program @throws Error if it is not installed */
export function pathOf({ title, names }: Program): string {
  const path = findProgram(names)
  if (path === undefined) throw new Error(`${title} cannot be found: install it`)
  return path
}

/**
 * Installs the missing ones of `programs`. It can do so only as root on Debian and Ubuntu.
 * @param print called with a line before each step that can take several seconds
 * @throws Error that says what to install if it cannot install them itself
 */
export async function installMissing(
  programs: readonly Program[],
  print: (line: string) => void,
): Promise<void> {
  const missing = programs.filter(({ names }) => findProgram(names) === undefined)
  if (missing.length === 0) return
  const packages = missing.map(program => program.debianPackage)
  const isRoot = process.getuid?.() === 0
  const variables = missing.flatMap(({ variable }) => variable ?? [])
  const formulas = missing.flatMap(({ brewFormula }) => brewFormula ?? [])
  const title = missing.map(program => program.title).join(' and ')
  const remedy =
    `run sudo apt-get install --no-install-recommends ${packages.join(' ')}` +
    (formulas.length === missing.length ? ` (or brew install ${formulas.join(' ')})` : '') +
    (variables.length > 0 ? `, or set ${variables.join(' and ')}` : '')
  if (!isRoot || findProgram(['apt-get']) === undefined)
    throw new Error(`${title} cannot be found: ${remedy}`)
  print(`installing ${packages.join(' and ')} with apt: this takes up to a minute`)
  await runProgram('/bin/sh', ['-c', aptScript, 'sh', ...packages]).catch((error: Error) => {
    throw new Error(`${title} cannot be installed (${error.message}): ${remedy}`)
  })
}

// A policy file prevents packages from starting services (https://manpages.debian.org/invoke-rc.d). The shell removes
// the file even if this process is interrupted. A newly installed service would also start at each boot of the
// machine, so the script disables it, both for systemd and for System V init.
const aptScript = `
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' >$policy
  chmod 755 $policy
fi
apt='apt-get -qq -o DPkg::Lock::Timeout=120'
$apt update
$apt install --yes --no-install-recommends "$@"
for service in redis-server haproxy nginx prometheus; do
  case " $* " in *" $service "*)
    systemctl disable $service.service || :
    update-rc.d $service disable || :
  esac
done`
